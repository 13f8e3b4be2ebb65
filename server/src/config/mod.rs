//! The configuration: where it comes from, what it means here, and how it is changed while the server runs.
//!
//! [`keys::KEYS`] is the one table of what can be set. [`load`] reads the file of `-c` against it and stops at the
//! first bad value. What is honoured at the start is then in [`Config`], what may change is in [`LiveConfig`], and
//! [`Settings`] holds both together with the text that GET_NAMESRV_CONFIG answers.

mod check;
mod cidr;
pub mod cli;
pub mod keys;
mod live;
mod problems;
pub mod properties;
mod update;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;

pub use self::check::FRAMES_IN_MEMORY_MIN;
use self::check::{check, fit_defaults};
pub use self::cidr::{Cidr, NotACidr};
use self::keys::{Effect, Group, KEYS, Key, Value};
pub use self::live::{Live, LiveConfig, LiveKey};
pub use self::problems::{ConfigError, Conflict, Warning};
pub use self::update::{CONFIG_UPDATE_BYTES_MAX, UpdateRefusal, Updated};
use crate::remoting::SerializeType;
use crate::storage::{FileSystem, Storage, folder_of, is_world_writable};

/// Reads the configuration from `file`, or takes the defaults when there is none.
///
/// # Errors
///
/// The file cannot be read, a value is not what its key takes, or the home folder is not known and needed.
pub fn load(file: Option<&Path>, environment: &Environment) -> Result<Loaded, ConfigError> {
    let mut warnings = Vec::new();
    let found = match file {
        Some(file) => read_file(file, &mut warnings)?,
        None => Found::new(),
    };
    let mut values = Values::new();
    for key in KEYS {
        if let Some(value) = value_of(key, &found, file, environment, &mut warnings)? {
            values.insert(key.name, value);
        }
    }
    if let Some(file) = file {
        store_updates_in(file, &found, &mut values, &mut warnings);
    }
    fit_defaults(&mut values, |key| found.contains_key(key));
    let unknown = || found.iter().filter(|(name, _)| keys::find(name).is_none());
    warnings.extend(unknown().map(|(key, found)| Warning::Unknown { key: key.clone(), line: found.line }));

    check(&values)?;
    let config = Config::new(&values);
    let folder = folder_of(&config.config_store_path);
    if is_world_writable(folder) {
        warnings.push(Warning::WorldWritableFolder { folder: folder.to_owned() });
    }
    let mut items: BTreeMap<_, _> = KEYS.iter().map(|key| (key.name.to_owned(), shown_value(&values, key))).collect();
    items.extend(unknown().map(|(key, found)| (key.clone(), found.value.clone())));
    let lines = shown_lines(&values, &found);
    let settings = Settings::new(config, Shown { values, lines });
    Ok(Loaded { settings, warnings, items, file: file.map(Path::to_owned) })
}

/// What [`load`] found.
#[derive(Debug)]
pub struct Loaded {
    /// For the server.
    pub settings: Settings,
    /// For the operator.
    pub warnings: Vec<Warning>,
    /// Every key with its value, and every other property of the file: what `-p` prints.
    pub items: BTreeMap<String, String>,
    /// The file that was read.
    pub file: Option<PathBuf>,
}

/// What the defaults depend on.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// The home folder of the user.
    pub home: Option<PathBuf>,
    /// `ROCKETMQ_HOME`. Only shown: nothing is read from there.
    pub rocketmq_home: Option<String>,
    /// `ROCKETMQ_SERIALIZE_TYPE`.
    pub serialize_type: Option<String>,
    /// Cores that this process may use.
    pub cores: usize,
}

impl Environment {
    /// The environment of this process.
    pub fn of_process() -> Self {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            // A container whose user the system does not know is at home in the root folder.
            home: std::env::home_dir().filter(|home| !home.as_os_str().is_empty()).or_else(|| Some("/".into())),
            rocketmq_home: variable("ROCKETMQ_HOME"),
            serialize_type: variable("ROCKETMQ_SERIALIZE_TYPE"),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }

    fn file(&self, name: &str) -> Option<String> {
        let path = self.home.as_ref()?.join("namesrv").join(name);
        path.into_os_string().into_string().ok()
    }

    #[cfg(test)]
    fn for_tests() -> Self {
        Self { home: Some("/home/test".into()), rocketmq_home: None, serialize_type: None, cores: 2 }
    }
}

/// What is honoured at the start and does not change afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// `listenPort`; 0 takes any free one, see [`Settings::set_bound_port`].
    pub listen_port: u16,
    /// `bindAddress`, an address or a host name.
    pub bind_address: String,
    /// `kvConfigPath`: the file of the KV store.
    pub kv_config_path: PathBuf,
    /// `kvInMemory`: whether KV puts are kept in memory when that file cannot be written.
    pub kv_in_memory: bool,
    /// `configStorePath`, or the file of `-c`: where updates are stored.
    pub config_store_path: PathBuf,
    /// `scanNotActiveBrokerInterval`: time between two looks for brokers without a heartbeat.
    pub scan_not_active_broker_interval: Duration,
    /// `serverChannelMaxIdleTimeSeconds`: an idle connection is closed after this; `None` keeps it.
    pub server_channel_max_idle_time: Option<Duration>,
    /// `serverSocketBacklog`: connections that wait to be accepted.
    pub server_socket_backlog: i32,
    /// `serverSocketSndBufSize`, in bytes; `None` leaves it to the system.
    pub server_socket_send_buffer_bytes: Option<usize>,
    /// `serverSocketRcvBufSize`, in bytes; `None` leaves it to the system.
    pub server_socket_receive_buffer_bytes: Option<usize>,
    /// `enableShutdownGracefully`: whether clients are sent away for a while before the end.
    pub enable_shutdown_gracefully: bool,
    /// `shutdownWaitTimeSeconds`: how long.
    pub shutdown_wait_time: Duration,
    /// `connectTimeoutMillis`: for connections to brokers.
    pub connect_timeout: Duration,
    /// `workerThreads`: threads that serve lookups.
    pub worker_threads: usize,
    /// `frameMaxLength`: longest frame that is read, in bytes.
    pub frame_bytes_max: usize,
    /// `headerBytesMax`: longest header that is read, in bytes; at most [`frame_bytes_max`](Self::frame_bytes_max).
    pub header_bytes_max: usize,
    /// `maxConnections`; `None`: as many as the limit of open files leaves, within reason.
    pub connections_max: Option<usize>,
    /// `maxConnectionsPerIp`: connections of one source address.
    pub connections_per_ip_max: Option<usize>,
    /// `memoryBytesMax`: bytes that peers may hold under way; at least [`FRAMES_IN_MEMORY_MIN`] times
    /// [`frame_bytes_max`](Self::frame_bytes_max).
    pub memory_bytes_max: usize,
    /// `proxyProtocolTrusted`: who may say in a PROXY header for whom it speaks.
    pub proxy_protocol_trusted: Vec<Cidr>,
    /// `drainTimeoutMillis`: in which connections are drained at the end.
    pub drain_timeout: Duration,
    /// `frameReadTimeoutMillis`: for the rest of a frame.
    pub frame_read_timeout: Duration,
    /// `writeStallTimeoutMillis`: in which a peer must take a byte of its answers.
    pub write_stall_timeout: Duration,
    /// `serializeType`: how the headers of answers are written.
    pub serialize_type: SerializeType,
    /// `adminAllowCidrs`: who may update the configuration.
    pub admin_allow_cidrs: Vec<Cidr>,
    /// `notifyAllowCidrs`: which brokers are told of a new smallest id though they registered from elsewhere.
    pub notify_allow_cidrs: Vec<Cidr>,
    /// `notifyHostNames`: whether brokers that name a host are told, too.
    pub notify_host_names: bool,
}

impl Config {
    fn new(values: &Values) -> Self {
        let flag = |name| matches!(values[name], Value::Flag(true));
        Self {
            listen_port: number(values, "listenPort"),
            bind_address: text(values, "bindAddress"),
            kv_config_path: text(values, "kvConfigPath").into(),
            kv_in_memory: flag("kvInMemory"),
            config_store_path: text(values, "configStorePath").into(),
            scan_not_active_broker_interval: Duration::from_millis(number(values, "scanNotActiveBrokerInterval")),
            server_channel_max_idle_time: unless_zero(number(values, "serverChannelMaxIdleTimeSeconds"))
                .map(Duration::from_secs),
            server_socket_backlog: number(values, "serverSocketBacklog"),
            server_socket_send_buffer_bytes: unless_zero(number(values, "serverSocketSndBufSize")),
            server_socket_receive_buffer_bytes: unless_zero(number(values, "serverSocketRcvBufSize")),
            enable_shutdown_gracefully: flag("enableShutdownGracefully"),
            shutdown_wait_time: Duration::from_secs(number(values, "shutdownWaitTimeSeconds")),
            connect_timeout: Duration::from_millis(number(values, "connectTimeoutMillis")),
            worker_threads: number(values, "workerThreads"),
            frame_bytes_max: number(values, "frameMaxLength"),
            header_bytes_max: number(values, "headerBytesMax"),
            connections_max: unless_zero(number(values, "maxConnections")),
            connections_per_ip_max: unless_zero(number(values, "maxConnectionsPerIp")),
            memory_bytes_max: number(values, "memoryBytesMax"),
            proxy_protocol_trusted: cidrs(values, "proxyProtocolTrusted"),
            drain_timeout: Duration::from_millis(number(values, "drainTimeoutMillis")),
            frame_read_timeout: Duration::from_millis(number(values, "frameReadTimeoutMillis")),
            write_stall_timeout: Duration::from_millis(number(values, "writeStallTimeoutMillis")),
            serialize_type: match values["serializeType"] {
                Value::SerializeType(kind) => kind,
                _ => unreachable!("the table says that serializeType is one"),
            },
            admin_allow_cidrs: cidrs(values, "adminAllowCidrs"),
            notify_allow_cidrs: cidrs(values, "notifyAllowCidrs"),
            notify_host_names: flag("notifyHostNames"),
        }
    }

    /// `adminAllowCidrs` for the log.
    pub fn admins(&self) -> String {
        match self.admin_allow_cidrs.as_slice() {
            [] => "nobody".to_owned(),
            blocks => Value::Cidrs(blocks.to_vec()).to_string(),
        }
    }

    /// `bindAddress` and `port`, as an address is written: IPv6 in brackets.
    pub fn address_with(&self, port: u16) -> String {
        let host = &self.bind_address;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

/// The configuration of a running server, shared by all threads.
pub struct Settings {
    config: Config,
    live: LiveConfig,
    black_list: Vec<String>,
    storage: Box<dyn Storage>,
    /// What GET_NAMESRV_CONFIG shows; held while an update is stored, so that updates are stored in their order.
    shown: Mutex<Shown>,
    /// The same as text, for readers that must not wait for the disk.
    text: RwLock<Bytes>,
}

impl Settings {
    fn new(config: Config, shown: Shown) -> Self {
        let live = KEYS.iter().fold(Live::default(), |live, key| match key.effect {
            Effect::Live(live_key) => with_value(live, live_key, &shown.values[key.name]),
            _ => live,
        });
        let black_list = text(&shown.values, "configBlackList");
        Self {
            config,
            live: LiveConfig::new(live),
            black_list: black_list.split(';').map(|key| key.trim().to_owned()).collect(),
            storage: Box::new(FileSystem),
            text: RwLock::new(text_of(&shown.lines)),
            shown: Mutex::new(shown),
        }
    }

    /// What was honoured at the start.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What may change. One atomic load; meant for the hot path.
    pub fn live(&self) -> Live {
        self.live.load()
    }

    /// The body of the answer to GET_NAMESRV_CONFIG: `key=value` lines, sorted, not escaped; what an update has stored
    /// for the next start is shown as stored. Nothing is encoded; never waits for the disk.
    pub fn text(&self) -> Bytes {
        self.text.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether a peer at `address` may update the configuration. O(n) in the blocks of `adminAllowCidrs`.
    pub fn is_admin_allowed(&self, address: IpAddr) -> bool {
        self.config.admin_allow_cidrs.iter().any(|block| block.contains(address))
    }

    /// Shows the port that the server really listens on, when the configured one was 0.
    pub fn set_bound_port(&self, port: u16) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.lines.insert("listenPort".to_owned(), port.to_string());
        self.show(&shown.lines);
    }

    fn show(&self, lines: &Lines) {
        let text = text_of(lines);
        *self.text.write().unwrap_or_else(PoisonError::into_inner) = text;
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("config", &self.config).field("live", &self.live).finish_non_exhaustive()
    }
}

struct FoundValue {
    value: String,
    line: usize,
}

/// The properties of the file; of a repeated key the last one.
type Found = BTreeMap<String, FoundValue>;
type Values = BTreeMap<&'static str, Value>;
type Lines = BTreeMap<String, String>;

/// What GET_NAMESRV_CONFIG shows, and what it stands for at the next start.
#[derive(Clone)]
struct Shown {
    values: Values,
    lines: Lines,
}

fn read_file(file: &Path, warnings: &mut Vec<Warning>) -> Result<Found, ConfigError> {
    let bytes = FileSystem.read(file).and_then(|bytes| bytes.ok_or_else(|| ErrorKind::NotFound.into()));
    let bytes = bytes.map_err(|source| ConfigError::Unreadable { file: file.to_owned(), source })?;
    let (text, is_utf8) = properties::decode_file(&bytes);
    if !is_utf8 {
        warnings.push(Warning::NotUtf8);
    }
    let entries =
        properties::parse(&text).map_err(|source| ConfigError::Malformed { file: file.to_owned(), source })?;
    Ok(entries.into_iter().map(|entry| (entry.key, FoundValue { value: entry.value, line: entry.line })).collect())
}

fn value_of(
    key: &'static Key,
    found: &Found,
    file: Option<&Path>,
    environment: &Environment,
    warnings: &mut Vec<Warning>,
) -> Result<Option<Value>, ConfigError> {
    let default = key.default_text(environment);
    if let (Some(FoundValue { value: text, line }), Some(file)) = (found.get(key.name), file) {
        match (key.parse(text), key.effect) {
            (Ok(value), effect) => {
                if effect == Effect::Ignored && Some(value.to_string()) != default {
                    warnings.push(Warning::Ignored { key: key.name, value: text.clone() });
                }
                return Ok(Some(value));
            }
            (Err(source), Effect::Ignored) => warnings.push(Warning::IgnoredValue { line: *line, source }),
            (Err(source), _) => return Err(ConfigError::BadValue { file: file.to_owned(), line: *line, source }),
        }
    }
    match default {
        Some(text) => Ok(Some(key.parse(&text).map_err(|source| ConfigError::BadEnvironment { source })?)),
        None if key.kind == keys::Kind::Name && !(key.name == "configStorePath" && file.is_some()) => {
            Err(ConfigError::NoHome { key: key.name })
        }
        None => Ok(None),
    }
}

/// As in the original, the file of `-c` is also the one that updates are stored in.
fn store_updates_in(file: &Path, found: &Found, values: &mut Values, warnings: &mut Vec<Warning>) {
    let path = file.to_string_lossy().into_owned();
    let named = found.get("configStorePath").map(|found| found.value.trim());
    if let Some(named) = named.filter(|named| !is_usual_store_path(Path::new(named), file)) {
        warnings.push(Warning::StorePathReplaced { named: named.to_owned() });
    }
    values.insert("configStorePath", Value::Text(path));
}

/// A file that an update has stored names itself, from wherever it was named then, and many files name the default of
/// the original, in whatever home folder. Nobody who writes that expects anything else.
fn is_usual_store_path(named: &Path, file: &Path) -> bool {
    let is_same = |of: fn(&Path) -> io::Result<PathBuf>| of(named).ok().is_some_and(|path| of(file).ok() == Some(path));
    named.ends_with("namesrv/namesrv.properties")
        || is_same(|path| std::path::absolute(path))
        || is_same(|path| path.canonicalize())
}

/// The lines that GET_NAMESRV_CONFIG shows: what the original has there, and every other property of the file.
fn shown_lines(values: &Values, found: &Found) -> Lines {
    let is_listed =
        |key: &Key| matches!(key.group, Group::Namesrv | Group::NettyServer) || found.contains_key(key.name);
    let mut lines: Lines = found.iter().map(|(key, found)| (key.clone(), found.value.clone())).collect();
    for key in KEYS.iter().filter(|key| is_listed(key) && values.contains_key(key.name)) {
        lines.insert(key.name.to_owned(), shown_value(values, key));
    }
    lines
}

fn shown_value(values: &Values, key: &Key) -> String {
    values.get(key.name).map(Value::to_string).unwrap_or_default()
}

fn text_of(lines: &Lines) -> Bytes {
    let mut text = String::new();
    for (key, value) in lines {
        text.extend([key, "=", value, "\n"]);
    }
    text.into()
}

fn with_value(live: Live, key: LiveKey, value: &Value) -> Live {
    match value {
        Value::Flag(on) => live.with_flag(key, *on),
        Value::Number(seconds) => live.with_wait_seconds(u32::try_from(*seconds).unwrap_or(u32::MAX)),
        _ => unreachable!("the table says that live keys are flags or a number"),
    }
}

fn number<T: TryFrom<i64>>(values: &Values, name: &str) -> T {
    match values[name] {
        Value::Number(number) => {
            T::try_from(number).unwrap_or_else(|_| unreachable!("the range of {name} in the table fits its field"))
        }
        _ => unreachable!("the table says that {name} is a number"),
    }
}

fn text(values: &Values, name: &str) -> String {
    match &values[name] {
        Value::Text(text) => text.clone(),
        _ => unreachable!("the table says that {name} is a text"),
    }
}

fn cidrs(values: &Values, name: &str) -> Vec<Cidr> {
    match &values[name] {
        Value::Cidrs(blocks) => blocks.clone(),
        _ => unreachable!("the table says that {name} are blocks"),
    }
}

fn unless_zero<T: PartialEq + Default>(number: T) -> Option<T> {
    (number != T::default()).then_some(number)
}

#[cfg(test)]
mod tests;
