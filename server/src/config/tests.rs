use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::storage::backup_path;
use crate::storage::crash::{CrashDisk, Refuses};

/// A server whose configuration file has this text.
struct Server {
    folder: tempfile::TempDir,
    settings: Settings,
}

impl Server {
    fn with_file(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("n.properties");
        fs::write(&file, text).unwrap();
        let settings = load(Some(&file), &Environment::for_tests()).unwrap().settings;
        Self { folder, settings }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("n.properties")
    }

    fn text(&self) -> String {
        String::from_utf8(self.settings.text().to_vec()).unwrap()
    }

    fn line(&self, key: &str) -> Option<String> {
        let text = self.text();
        text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')).map(str::to_owned)
    }

    /// Updates, and checks that a refusal leaves everything as it was. Returns the remark.
    fn update(&self, body: impl AsRef<[u8]>) -> Result<Option<String>, (i32, String)> {
        let state = || (self.text(), self.settings.live(), fs::read(self.file()).unwrap());
        let before = state();
        let result = self.settings.update(body.as_ref());
        result.map(|updated| updated.remark()).map_err(|refusal| {
            assert_eq!(state(), before, "{refusal}");
            (refusal.code(), refusal.to_string())
        })
    }

    fn restarted(self) -> Self {
        let settings = load(Some(&self.file()), &Environment::for_tests()).unwrap().settings;
        Self { settings, ..self }
    }
}

fn loaded(text: &str) -> Result<Loaded, ConfigError> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("n.properties");
    fs::write(&file, text).unwrap();
    load(Some(&file), &Environment::for_tests())
}

const DEFAULTS: &str = "bindAddress=0.0.0.0
clientRequestThreadPoolNums=8
clientRequestThreadPoolQueueCapacity=50000
clusterTest=false
configBlackList=configBlackList;configStorePath;kvConfigPath
configStorePath=/home/test/namesrv/namesrv.properties
defaultThreadPoolNums=16
defaultThreadPoolQueueCapacity=10000
deleteTopicWithBrokerRegistration=false
enableAllTopicList=true
enableControllerInNamesrv=false
enableShutdownGracefully=false
enableTopicList=true
kvConfigPath=/home/test/namesrv/kvConfig.json
listenPort=9876
needWaitForService=false
notifyMinBrokerIdChanged=false
orderMessageEnable=false
productEnvName=center
returnOrderTopicConfigToBroker=true
rocketmqHome=/opt/rocketmq
scanNotActiveBrokerInterval=5000
serverAsyncSemaphoreValue=64
serverCallbackExecutorThreads=0
serverChannelMaxIdleTimeSeconds=120
serverNettyWorkerGroupEnable=true
serverOnewaySemaphoreValue=256
serverPooledByteBufAllocatorEnable=true
serverSelectorThreads=3
serverSocketBacklog=1024
serverSocketRcvBufSize=0
serverSocketSndBufSize=0
serverWorkerThreads=8
shutdownWaitTimeSeconds=30
supportActingMaster=false
unRegisterBrokerQueueCapacity=3000
useEpollNativeSelector=false
waitSecondsForService=45
writeBufferHighWaterMark=0
writeBufferLowWaterMark=0
";

#[test]
fn shows_the_defaults_of_the_original() {
    let environment = Environment { rocketmq_home: Some("/opt/rocketmq".into()), ..Environment::for_tests() };
    let loaded = load(None, &environment).unwrap();
    assert_eq!(loaded.settings.text(), DEFAULTS.as_bytes());
    assert_eq!((loaded.warnings, loaded.file), (vec![], None));
    let live = loaded.settings.live();
    assert!(live.enable_topic_list() && live.enable_all_topic_list() && live.return_order_topic_config_to_broker());
    assert!(!live.support_acting_master() && !live.order_message_enable() && !live.need_wait_for_service());
    assert!(!live.notify_min_broker_id_changed() && !live.delete_topic_with_broker_registration());
    assert_eq!(live.wait_seconds_for_service(), 45);
    let config = loaded.settings.config();
    assert_eq!((config.listen_port, config.worker_threads, config.frame_bytes_max), (9876, 1, 16_777_216));
    assert_eq!(config.server_channel_max_idle_time, Some(Duration::from_secs(120)));
    assert_eq!(config.server_socket_send_buffer_bytes, None);
    assert_eq!(config.serialize_type, SerializeType::Json);
    assert_eq!(config.scan_not_active_broker_interval, Duration::from_secs(5));
}

#[test]
fn limits_have_defaults_and_are_read() {
    let defaults = load(None, &Environment::for_tests()).unwrap().settings;
    let config = defaults.config();
    assert_eq!((config.connections_max, config.connections_per_ip_max), (None, None));
    assert_eq!((config.memory_bytes_max, config.header_bytes_max), (256 << 20, 64 << 10));
    let times = |config: &Config| [config.drain_timeout, config.frame_read_timeout, config.write_stall_timeout];
    assert_eq!(times(config), [3_000, 30_000, 15_000].map(Duration::from_millis));

    let text = "maxConnections=7\nmaxConnectionsPerIp=3\nmemoryBytesMax=67108864\nheaderBytesMax=1024\n\
                drainTimeoutMillis=0\nframeReadTimeoutMillis=100\nwriteStallTimeoutMillis=600000\n\
                proxyProtocolTrusted=192.0.2.7\n";
    let loaded = loaded(text).unwrap();
    assert_eq!(loaded.warnings, []);
    let config = loaded.settings.config();
    assert_eq!((config.connections_max, config.connections_per_ip_max), (Some(7), Some(3)));
    assert_eq!((config.memory_bytes_max, config.header_bytes_max), (64 << 20, 1_024));
    assert_eq!(times(config), [0, 100, 600_000].map(Duration::from_millis));
    assert_eq!(config.proxy_protocol_trusted, ["192.0.2.7".parse().unwrap()]);
    assert_eq!(loaded.items["maxConnectionsPerIp"], "3");
}

#[test]
fn headers_are_trusted_from_loopback_and_private_addresses() {
    let settings = load(None, &Environment::for_tests()).unwrap().settings;
    let is_trusted = |address: &str| {
        let address = address.parse().unwrap();
        settings.config().proxy_protocol_trusted.iter().any(|block| block.contains(address))
    };
    let trusted = ["127.0.0.1", "::1", "10.1.2.3", "172.31.0.1", "192.168.0.1", "169.254.1.1", "fe80::1", "fd00::1"];
    let mapped = ["::ffff:127.0.0.1", "::ffff:10.1.2.3", "::ffff:192.168.0.1"];
    for address in trusted.into_iter().chain(mapped) {
        assert!(is_trusted(address), "{address}");
    }
    for address in ["192.0.2.1", "172.32.0.1", "100.64.0.1", "::ffff:192.0.2.1", "2001:db8::1", "0.0.0.0", "::"] {
        assert!(!is_trusted(address), "{address}");
    }
}

#[test]
fn the_memory_must_hold_several_of_the_longest_frames() {
    let frame = 100 << 20;
    let with_memory = |memory: usize| loaded(&format!("frameMaxLength={frame}\nmemoryBytesMax={memory}"));
    with_memory(4 * frame).unwrap();
    let message = with_memory(4 * frame - 1).unwrap_err().to_string();
    for part in ["memoryBytesMax=419430399", "frameMaxLength=104857600", "at least 419430400"] {
        assert!(message.contains(part), "{part} in {message}");
    }
}

#[test]
fn a_header_must_fit_into_a_frame() {
    loaded("frameMaxLength=4096\nheaderBytesMax=4096").unwrap();
    let message = loaded("frameMaxLength=4096\nheaderBytesMax=4097").unwrap_err().to_string();
    assert_eq!(message, "headerBytesMax=4097 exceeds frameMaxLength=4096: set headerBytesMax to at most 4096");
    let message = loaded("headerBytesMax=65536\nframeMaxLength=65535").unwrap_err().to_string();
    assert!(message.contains("headerBytesMax=65536") && message.contains("frameMaxLength=65535"), "{message}");
}

#[test]
fn limits_that_nobody_has_set_fit_the_frame_that_somebody_has() {
    for (frame, memory, header) in [
        (1_024, 256 << 20, 1_024),
        (65_535, 256 << 20, 65_535),
        (64 << 20, 256 << 20, 64 << 10),
        ((64 << 20) + 1, (256 << 20) + 4, 64 << 10),
        (1 << 30, 4 << 30, 64 << 10),
    ] {
        let loaded = loaded(&format!("frameMaxLength={frame}")).unwrap();
        let config = loaded.settings.config();
        assert_eq!((config.memory_bytes_max, config.header_bytes_max), (memory, header), "{frame}");
        assert_eq!(loaded.items["memoryBytesMax"], memory.to_string());
        assert_eq!(loaded.items["headerBytesMax"], header.to_string());
        assert_eq!(loaded.warnings, []);
    }
}

#[test]
fn an_update_of_the_frame_takes_the_limits_along_that_nobody_has_set() {
    let server = Server::with_file("");
    server.update("frameMaxLength=134217728").unwrap();
    // Back again: the default is not what it was raised to.
    server.update("frameMaxLength=4096").unwrap();
    let server = server.restarted();
    let config = server.settings.config();
    assert_eq!((config.frame_bytes_max, config.memory_bytes_max, config.header_bytes_max), (4_096, 256 << 20, 4_096));
    let (code, remark) = server.update("headerBytesMax=4097").unwrap_err();
    assert_eq!((code, remark.contains("frameMaxLength=4096")), (1, true), "{remark}");
    server.update("frameMaxLength=134217728").unwrap();
    let server = server.restarted();
    assert_eq!(server.settings.config().memory_bytes_max, 512 << 20);
    // What is set by an update is set.
    server.update("memoryBytesMax=536870912").unwrap();
    assert!(server.update("frameMaxLength=134217729").unwrap_err().1.contains("memoryBytesMax=536870912"));
}

#[test]
fn without_homes_the_paths_must_be_set() {
    let environment = Environment { home: None, ..Environment::for_tests() };
    assert!(matches!(load(None, &environment), Err(ConfigError::NoHome { key: "kvConfigPath" })));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("n.properties");
    fs::write(&file, "kvConfigPath=/x/kv.json").unwrap();
    let settings = load(Some(&file), &environment).unwrap().settings;
    assert_eq!(settings.config().config_store_path, file);
    assert!(!String::from_utf8_lossy(&settings.text()).contains("rocketmqHome"));
}

#[test]
fn keeps_other_keys_of_the_file_and_says_what_has_no_effect() {
    let text = "# c\nmyOwnKey=hello\nbad.number: x\nserverWorkerThreads=3\ndefaultThreadPoolNums=16\n\
                connectTimeoutMillis=7\nadminAllowCidrs=10.0.0.0/8\nconfigStorePath=/elsewhere\n";
    let loaded = loaded(text).unwrap();
    let warnings = [
        Warning::Ignored { key: "serverWorkerThreads", value: "3".into() },
        Warning::StorePathReplaced { named: "/elsewhere".into() },
        Warning::Unknown { key: "bad.number".into(), line: 3 },
        Warning::Unknown { key: "myOwnKey".into(), line: 2 },
    ];
    assert_eq!(loaded.warnings, warnings);
    let shown = String::from_utf8(loaded.settings.text().to_vec()).unwrap();
    for line in ["myOwnKey=hello", "bad.number=x", "serverWorkerThreads=3", "connectTimeoutMillis=7"] {
        assert!(shown.lines().any(|shown| shown == line), "{line} in {shown}");
    }
    assert!(shown.contains("adminAllowCidrs=10.0.0.0/8\n") && !shown.contains("workerThreads="), "{shown}");
    assert!(!shown.contains("/elsewhere"), "{shown}");
    assert_eq!(loaded.settings.config().connect_timeout, Duration::from_millis(7));
}

#[test]
fn a_bad_value_stops_the_start_with_key_value_file_and_line() {
    let message = loaded("# c\n\nlistenPort = 99999\n").unwrap_err().to_string();
    assert!(message.ends_with("n.properties, line 3: listenPort: \"99999\" is not a whole number from 0 to 65535"));
    assert!(matches!(loaded("listenPort=9 876"), Err(ConfigError::BadValue { line: 1, .. })));
    assert!(matches!(loaded("a=\\u1"), Err(ConfigError::Malformed { .. })));
    let environment = Environment { serialize_type: Some("XML".into()), ..Environment::for_tests() };
    assert!(load(None, &environment).unwrap_err().to_string().contains("\"XML\" is not JSON or ROCKETMQ"));
    let environment = Environment { serialize_type: Some("ROCKETMQ".into()), ..Environment::for_tests() };
    assert_eq!(load(None, &environment).unwrap().settings.config().serialize_type, SerializeType::RocketMq);
}

#[test]
fn a_bad_value_of_a_key_without_effect_only_warns() {
    let loaded = loaded("# c\nclientRequestThreadPoolNums=abc\nclientWorkerThreads=-1\nuseTLS=yes\n").unwrap();
    let warnings: Vec<_> = loaded.warnings.iter().map(Warning::to_string).collect();
    let rest = "; it has no effect in this server";
    let expected = [
        format!("line 2: clientRequestThreadPoolNums: \"abc\" is not a whole number from 1 to 2147483647{rest}"),
        format!("line 3: clientWorkerThreads: \"-1\" is not a whole number from 0 to 2147483647{rest}"),
        format!("line 4: useTLS: \"yes\" is not true or false{rest}"),
    ];
    assert_eq!(warnings, expected);
    let shown = String::from_utf8(loaded.settings.text().to_vec()).unwrap();
    for line in ["clientRequestThreadPoolNums=8", "clientWorkerThreads=4", "useTLS=false"] {
        assert!(shown.lines().any(|shown| shown == line), "{line} in {shown}");
    }
}

#[test]
fn blanks_behind_values_and_brackets_around_an_address_are_taken() {
    let text = "listenPort=1 \nbindAddress = [::] \t\nenableTopicList=false \nclientWorkerThreads=5 \nown=x \n";
    let loaded = loaded(text).unwrap();
    let config = loaded.settings.config();
    assert_eq!((config.listen_port, config.bind_address.as_str()), (1, "::"));
    assert_eq!(config.address_with(7), "[::]:7");
    assert!(!loaded.settings.live().enable_topic_list());
    let shown = String::from_utf8(loaded.settings.text().to_vec()).unwrap();
    for line in ["listenPort=1", "bindAddress=::", "clientWorkerThreads=5", "own=x "] {
        assert!(shown.lines().any(|shown| shown == line), "{line} in {shown}");
    }
    let defaults = load(None, &Environment::for_tests()).unwrap().settings;
    assert_eq!(defaults.config().address_with(7), "0.0.0.0:7");
}

#[test]
fn a_controller_is_not_promised() {
    let message = loaded("enableControllerInNamesrv=true").unwrap_err().to_string();
    for part in ["enableControllerInNamesrv=true", "mqcontroller", "ControllerStartup"] {
        assert!(message.contains(part), "{part} in {message}");
    }
    assert_eq!(loaded("enableControllerInNamesrv=false").unwrap().warnings, []);
}

#[test]
fn a_usual_place_for_updates_is_no_reason_to_warn() {
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("n.properties"), folder.path().join("link"));
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let warnings = |named: &str| {
        fs::write(&file, format!("configStorePath={named}\n")).unwrap();
        load(Some(&file), &Environment::for_tests()).unwrap().warnings
    };
    let own = |path: &Path| path.to_str().unwrap().to_owned();
    for named in [
        &own(&file),
        &own(&link),
        "/home/rocketmq/namesrv/namesrv.properties",
        "/home/test/namesrv/namesrv.properties ",
    ] {
        assert_eq!(warnings(named), [], "{named}");
    }
    for named in ["/elsewhere", "/home/rocketmq/other-namesrv/x/namesrv.properties"] {
        assert_eq!(warnings(named), [Warning::StorePathReplaced { named: named.into() }]);
    }
}

#[test]
fn says_who_may_update() {
    let admins = |text: &str| loaded(text).unwrap().settings.config().admins();
    assert_eq!(admins(""), "127.0.0.0/8,::1/128");
    assert_eq!(admins("adminAllowCidrs=10.0.0.7"), "10.0.0.7/32");
    assert_eq!(admins("adminAllowCidrs="), "nobody");
}

#[test]
fn every_number_of_the_table_fits_its_field() {
    for pick in
        [|range: &std::ops::RangeInclusive<i64>| *range.start(), |range: &std::ops::RangeInclusive<i64>| *range.end()]
    {
        let mut text = String::new();
        for key in KEYS {
            if let keys::Kind::Number(range) = &key.kind {
                text.push_str(&format!("{}={}\n", key.name, pick(range)));
            }
        }
        loaded(&text).unwrap();
    }
}

#[test]
fn an_update_takes_effect_at_once_and_after_a_restart() {
    let server = Server::with_file("own=\\u4e2d\\n\\u00e9 \\\\\nkvConfigPath=/x\n");
    server.update("enableTopicList : false\nwaitSecondsForService=46\nsupportActingMaster=TRUE").unwrap();
    let live = server.settings.live();
    assert!(!live.enable_topic_list() && live.support_acting_master() && live.enable_all_topic_list());
    assert_eq!(live.wait_seconds_for_service(), 46);
    assert_eq!(server.line("supportActingMaster").as_deref(), Some("true"));
    let text = server.text();
    assert!(text.contains("own=中\né \\\n"), "{text}");
    assert_eq!(
        fs::read_to_string(backup_path(&server.file())).unwrap(),
        "own=\\u4e2d\\n\\u00e9 \\\\\nkvConfigPath=/x\n"
    );
    let server = server.restarted();
    assert_eq!((server.text(), server.settings.live()), (text, live));
}

#[test]
fn reads_every_spelling_that_java_reads() {
    let server = Server::with_file("");
    let steps: [(&str, bool); 5] = [
        ("enableTopicList : false", false),
        ("enableTopicList true", true),
        ("# comment\n! comment\n\n  enableTopic\\\n    List = false\r\n", false),
        ("enableTopicLis\\u0074=true", true),
        ("enableTopicList=true\nenableTopicList=false", false),
    ];
    for (body, on) in steps {
        server.update(body).unwrap();
        assert_eq!(server.settings.live().enable_topic_list(), on, "{body}");
    }
    server.update("").unwrap();
}

#[test]
fn the_black_list_holds_in_every_spelling() {
    let server = Server::with_file("configBlackList=configBlackList; enableTopicList\nown=1");
    let bodies = [
        "kvConfigPath=/else/x",
        "configStorePath=/else/x",
        "rocketmqHome=/else/x",
        "configBlackList=x",
        "enableAllTopicList=false\nkvConfigPath=/else/x",
        "noSuchKey=1\nkvConfigPath=/else/x",
        "  configStorePath : /else/x",
        "config\\u0053torePath=/else/x",
        "configStorePath\\ =/else/x",
        "\\tkvConfigPath=/else/x",
        "kvConfig\\\n  Path=/else/x",
        "kvConfigPath",
        "kvConfigPath=",
        "enableTopicList=false",
    ];
    for body in bodies {
        let refused = Err((16, "Can not update config in black list.".to_owned()));
        assert_eq!(server.update(body), refused, "{body}");
    }
}

#[test]
fn refuses_what_it_cannot_do_and_says_why() {
    let server = Server::with_file("own=1\nclientWorkerThreads=4\nadminAllowCidrs=::1");
    let unknown =
        |key: &str| format!("{key:?} is not a configuration key: it can be changed in the configuration file only");
    let cases = [
        ("a=\\u12", "string2Properties error"),
        ("KvConfigPath=/else/x", &unknown("KvConfigPath")),
        ("enableTopicList=false\nnoSuchKey=1", &unknown("noSuchKey")),
        ("own=2", &unknown("own")),
        ("=x", &unknown("")),
        ("x", &unknown("x")),
        ("orderMessageEnable=true\nlistenPort=x", "listenPort: \"x\" is not a whole number from 0 to 65535"),
        ("serverWorkerThreads=-3", "serverWorkerThreads: \"-3\" is not a whole number from 0 to 2147483647"),
        ("notifyMinBrokerIdChanged=yes", "notifyMinBrokerIdChanged: \"yes\" is not true or false"),
        ("waitSecondsForService=abc", "waitSecondsForService: \"abc\" is not a whole number from 0 to 2147483647"),
    ];
    for (body, remark) in cases {
        assert_eq!(server.update(body), Err((1, remark.to_owned())), "{body}");
    }
    for key in ["adminAllowCidrs", "proxyProtocolTrusted"] {
        let (code, remark) = server.update(format!("enableTopicList=false\n{key}=0.0.0.0/0")).unwrap_err();
        assert_eq!(
            (code, remark),
            (16, format!("{key} says who is trusted: it can be changed in the configuration file only"))
        );
    }
    assert_eq!(server.update(b"\xff\xfe=\xfd").unwrap_err().1, unknown("ÿþ"));
    assert!(server.update("a".repeat(70_000)).unwrap_err().1.contains("config_update_bytes_max 65536"));
    assert!(server.update("a".repeat(60_000)).unwrap_err().1.len() < 200);
}

#[test]
fn what_cannot_take_effect_now_is_stored_and_named() {
    let server = Server::with_file("listenPort=9876");
    let remark = |body: &str| server.update(body).unwrap().unwrap_or_default();
    assert_eq!(remark("listenPort=1"), "listenPort: stored; takes effect after a restart");
    assert_eq!(remark("serverWorkerThreads=3 "), "serverWorkerThreads: stored; has no effect in this server");
    let all = "workerThreads=2\nenableTopicList=false\nclientWorkerThreads=5\nscanNotActiveBrokerInterval=10\nworkerThreads=1";
    let expected = "scanNotActiveBrokerInterval, workerThreads: stored; takes effect after a restart. \
                    clientWorkerThreads: stored; has no effect in this server";
    assert_eq!(remark(all), expected);
    assert_eq!(remark("enableTopicList=true"), "");
    assert_eq!(server.settings.config().listen_port, 9876);
    let text = server.text();
    let server = server.restarted();
    assert_eq!(server.text(), text);
    let config = server.settings.config();
    assert_eq!((config.listen_port, config.worker_threads), (1, 1));
    assert_eq!(config.scan_not_active_broker_interval, Duration::from_millis(10));
    assert_eq!(server.line("serverWorkerThreads").as_deref(), Some("3"));
}

#[test]
fn nothing_is_stored_that_would_stop_the_next_start() {
    let server = Server::with_file("frameMaxLength=33554432\nmemoryBytesMax=268435456");
    let remark = |body: &str| server.update(body).unwrap_err().1;
    assert!(remark("enableControllerInNamesrv=true").contains("mqcontroller"));
    assert!(remark("memoryBytesMax=134217727").contains("frameMaxLength=33554432"));
    assert!(remark("frameMaxLength=67108865").contains("memoryBytesMax=268435456"));
    server.update("memoryBytesMax=536870912").unwrap();
    server.update("frameMaxLength=67108865").unwrap();
    server.update("enableControllerInNamesrv=false").unwrap();
    assert_eq!(server.restarted().settings.config().frame_bytes_max, 67_108_865);
}

#[test]
fn a_value_cannot_bring_keys_along() {
    let server = Server::with_file("kvConfigPath=/good");
    server.update("productEnvName=x\\nkvConfigPath=/bad\\r\\nlistenPort=1\\u000alistenPort=2").unwrap();
    let server = server.restarted();
    assert_eq!(server.settings.config().kv_config_path, Path::new("/good"));
    assert_eq!(server.settings.config().listen_port, 9876);
    assert_eq!(
        server.settings.shown.lock().unwrap().lines["productEnvName"],
        "x\nkvConfigPath=/bad\r\nlistenPort=1\nlistenPort=2"
    );
}

#[test]
fn an_update_that_cannot_be_stored_has_no_effect() {
    let server = Server::with_file("");
    fs::create_dir(server.folder.path().join("n.properties.tmp")).unwrap();
    let (code, remark) = server.update("enableTopicList=false").unwrap_err();
    assert!(code == 1 && remark.contains("n.properties.tmp"), "{remark}");

    let disk = CrashDisk::default();
    let mut settings = load(None, &Environment::for_tests()).unwrap().settings;
    settings.storage = Box::new(disk.clone());
    for steps in 0..5 {
        disk.fail_after(steps);
        assert!(matches!(settings.update(b"enableTopicList=false"), Err(UpdateRefusal::Storage(_))));
        assert!(settings.live().enable_topic_list());
    }
    assert!(settings.update(b"enableTopicList=false").unwrap().not_stored.is_none());
    assert!(!settings.live().enable_topic_list());
}

#[test]
fn an_update_of_a_file_that_cannot_be_written_takes_effect_and_says_so() {
    let mut settings = load(None, &Environment::for_tests()).unwrap().settings;
    settings.storage = Box::new(CrashDisk::default().refusing(Refuses::Changes));
    let updated = settings.update(b"enableTopicList=false").unwrap();
    let remark = updated.remark().unwrap();
    assert!(remark.contains("not stored") && remark.contains("/home/test/namesrv/namesrv.properties"), "{remark}");
    assert!(!settings.live().enable_topic_list());
    assert!(settings.text().windows(21).any(|text| text == b"enableTopicList=false"));
    let remark = settings.update(b"clientWorkerThreads=5").unwrap().remark().unwrap();
    assert!(remark.starts_with("clientWorkerThreads: has no effect in this server. "), "{remark}");
    // It would be neither in effect nor stored.
    let refusal = settings.update(b"enableTopicList=true\nlistenPort=1").unwrap_err();
    assert!(matches!(refusal, UpdateRefusal::Storage(_)) && !settings.live().enable_topic_list());
}

#[test]
fn only_allowed_addresses_may_update() {
    let is_allowed = |text, address: &str| Server::with_file(text).settings.is_admin_allowed(address.parse().unwrap());
    for address in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
        assert!(is_allowed("", address), "{address}");
        assert!(!is_allowed("adminAllowCidrs=", address), "{address}");
    }
    assert!(!is_allowed("", "10.0.0.1") && is_allowed("adminAllowCidrs=10.0.0.0/8", "10.0.0.1"));
    assert_eq!(UpdateRefusal::NotAllowed.code(), 16);
}

#[test]
fn shows_the_port_that_was_bound() {
    let server = Server::with_file("listenPort=0");
    server.settings.set_bound_port(40_000);
    assert_eq!(server.line("listenPort").as_deref(), Some("40000"));
    server.update("enableTopicList=true").unwrap();
    assert_eq!(server.line("listenPort").as_deref(), Some("40000"));
}

#[cfg(unix)]
#[test]
fn says_that_the_folder_is_open_to_all() {
    use std::os::unix::fs::PermissionsExt;
    let server = Server::with_file("");
    fs::set_permissions(server.folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let loaded = load(Some(&server.file()), &Environment::for_tests()).unwrap();
    assert_eq!(loaded.warnings, [Warning::WorldWritableFolder { folder: server.folder.path().to_owned() }]);
}

#[test]
fn a_configuration_behind_a_link_is_replaced_beside_itself() {
    let mut server = Server::with_file("enableTopicList=false");
    let link = server.folder.path().join("link");
    std::os::unix::fs::symlink(server.file(), &link).unwrap();
    server.settings = load(Some(&link), &Environment::for_tests()).unwrap().settings;
    assert!(!server.settings.live().enable_topic_list());
    server.update("enableTopicList=true").unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(server.restarted().settings.live().enable_topic_list());
}

#[test]
fn the_readme_has_every_key_of_our_own() {
    let readme = include_str!("../../../README.md");
    for key in KEYS.iter().filter(|key| key.group == Group::Own) {
        assert!(readme.contains(&format!("`{}`", key.name)), "{} is not in README.md", key.name);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_body_is_taken_whole_or_refused(body in proptest::collection::vec(prop_oneof![
        any::<u8>().prop_map(|byte| vec![byte]),
        proptest::sample::select(vec!["productEnvName", "listenPort", "enableTopicList", "kvConfigPath", "=", ":", "\n", "\\", "\\u00", "true", "#"])
            .prop_map(|text| text.as_bytes().to_vec()),
    ], 0..24)) {
        let server = Server::with_file("own=1\nkvConfigPath=/good");
        if server.update(body.concat()).is_ok() {
            let text = server.text();
            if !body.is_empty() {
                let server = server.restarted();
                prop_assert_eq!(server.text(), text);
                prop_assert_eq!(server.settings.config().kv_config_path.as_path(), Path::new("/good"));
            }
        }
    }
}
