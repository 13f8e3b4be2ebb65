//! All commands of the administration tool 5.5.0, and how the test runs each of them.

use std::fs;
use std::path::Path;

/// How what the tool prints with two name servers is compared.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Compare {
    /// Line by line.
    Exact,
    /// As sorted lines: the official server gives lists in the order of its hash tables.
    AnyOrder,
    /// As sorted lines with each number replaced: the numbers are the broker's and change with each look.
    Shape,
    /// Each line of the official server, but paths and ports, is there; ours may have settings of its own.
    Config,
}

/// One command as it is run with each name server: first with ours, then with the official one.
///
/// In the command `{broker}` is the address of the broker, `{cluster}` its cluster, `{folder}` and `{side}` are a
/// folder and a word that belong to the name server, and `{first_message}` the id of the first message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) command: &'static str,
    pub(crate) compare: Compare,
    /// Shows that the command did its work, or failed for the right reason.
    pub(crate) says: &'static str,
}

const fn exact(command: &'static str, says: &'static str) -> Case {
    Case { command, compare: Compare::Exact, says }
}

const fn any_order(command: &'static str, says: &'static str) -> Case {
    Case { command, compare: Compare::AnyOrder, says }
}

const fn shape(command: &'static str, says: &'static str) -> Case {
    Case { command, compare: Compare::Shape, says }
}

/// Commands that ask a name server. Each leaves the topic `first` as it was.
pub(crate) const THROUGH_NAME_SERVER: &[Case] = &[
    // Name server.
    any_order("topicList", "first"),
    any_order("topicList -c", "first"),
    any_order("topicRoute -t first", "\"brokerName\":\"broker-a\""),
    any_order("topicRoute -t first -l", "broker-a"),
    exact("topicRoute -t nowhere", "CODE: 17  DESC: No topic route info in name server for the topic: nowhere"),
    exact("topicClusterList -t first", "peers"),
    exact("topicClusterList -t nowhere", "CODE: 17"),
    shape("clusterList", "V5_5_0"),
    shape("clusterList -m", "broker-a"),
    exact("updateKvConfig -s space -k key -v value", "create or update kv config to namespace success."),
    exact("deleteKvConfig -s space -k key", "delete kv config from namespace success."),
    exact("deleteKvConfig -s space -k nothing", "delete kv config from namespace success."),
    exact("updateOrderConf -t first -m put -v broker-a:4", "update orderConf success."),
    exact("updateOrderConf -t first -m get", "orderConf=[broker-a:4]"),
    exact("updateOrderConf -t first -m delete", "delete orderConf success."),
    exact(
        "updateOrderConf -t first -m get",
        "CODE: 22  DESC: No config item, Namespace: ORDER_TOPIC_CONFIG Key: first",
    ),
    exact("wipeWritePerm -b broker-a", "OK, 1"),
    any_order("topicRoute -t first", "\"perm\":4"),
    exact("wipeWritePerm -b broker-a", "OK, "),
    exact("addWritePerm -b broker-a", "OK, 1"),
    any_order("topicRoute -t first", "\"perm\":6"),
    exact("wipeWritePerm -b nobody", "OK, 0"),
    exact("addWritePerm -b nobody", "OK, 0"),
    Case { command: "getNamesrvConfig", compare: Compare::Config, says: "deleteTopicWithBrokerRegistration" },
    exact("updateNamesrvConfig -k deleteTopicWithBrokerRegistration -v true", "update name server config success!"),
    Case { command: "getNamesrvConfig", compare: Compare::Config, says: "=  true" },
    exact("updateNamesrvConfig -k deleteTopicWithBrokerRegistration -v false", "update name server config success!"),
    exact("updateNamesrvConfig -k kvConfigPath -v elsewhere", "Can not update config in black list."),
    any_order("allocateMQ -t first -i 127.0.0.1,127.0.0.2", "broker-a"),
    shape("statsAll", "NO_CONSUMER"),
    shape("statsAll -a -t first", "first"),
    // Topics.
    exact("updateTopic -c {cluster} -t second -r 2 -w 2", "create topic to"),
    exact("updateTopic -c nowhere -t second", "[error] Make sure the specified clusterName exists"),
    any_order("updateTopicList -c {cluster} -f {folder}/topics.json", "success"),
    any_order("updateTopicPerm -c {cluster} -t first -p 6", "update topic perm from 6 to 6"),
    exact("updateTopicPerm -b {broker} -t first -p 6", "new perm equals to the old one!"),
    shape("topicStatus -t first", "broker-a"),
    shape("topicStatus -t first -c {cluster}", "broker-a"),
    exact("topicStatus -t nowhere", "CODE: 17"),
    exact("deleteTopic -c {cluster} -t second", "delete topic [second] from NameServer success."),
    exact("deleteTopic -c nowhere -t second", "nowhere"),
    // Brokers.
    shape("brokerStatus -c {cluster}", "brokerVersionDesc"),
    exact("updateBrokerConfig -c {cluster} -k traceOn -v true", "update broker config success"),
    shape("getBrokerConfig -c {cluster}", "registerNameServerPeriod"),
    exact("cleanExpiredCQ -c {cluster}", "success"),
    exact("deleteExpiredCommitLog -c {cluster}", "success"),
    exact("cleanUnusedTopic -c {cluster}", "success"),
    shape("haStatus -c {cluster}", "#SlaveNum"),
    exact("getBrokerEpoch -c {cluster}", "this request only for controllerMode"),
    exact("getSyncStateSet -c {cluster} -a 127.0.0.1:1", "connect to 127.0.0.1:1 failed"),
    shape("getColdDataFlowCtrInfo -c {cluster}", "runtimeTable"),
    exact("updateColdDataFlowCtrGroupConfig -c {cluster} -g group -v 1024", "success"),
    exact("removeColdDataFlowCtrGroupConfig -c {cluster} -g group", "success"),
    exact("setCommitLogReadAheadMode -c {cluster} -m 0", "success"),
    exact("switchTimerEngine -c {cluster} -e F", "success"),
    exact("checkRocksdbCqWriteProgress -c {cluster}", "broker-a"),
    exact("rocksDBConfigToJson -c {cluster} -t topics", "broker export done."),
    shape("getBrokerLiteInfo -c {cluster}", "#Store Type"),
    shape("exportConfigs -c {cluster} -f {folder}", "export FOLDER/configs.json success"),
    shape("exportMetadata -c {cluster} -f {folder} -t", "FOLDER"),
    shape("exportMetrics -c {cluster} -f {folder}", "export"),
    exact("exportPopRecord -c {cluster} -d true", "brokerName=broker-a"),
    // Groups and messages.
    exact("updateSubGroup -c {cluster} -g group", "create subscription group to"),
    any_order("updateSubGroupList -c {cluster} -f {folder}/groups.json", "success"),
    exact("setConsumeMode -c {cluster} -t first -g group -m PULL -q 0", "set consume mode to"),
    any_order("getConsumerConfig -g group", "broker-a"),
    any_order("resetOffsetByTime -g group -t first -s -1", "broker-a"),
    any_order("skipAccumulatedMessage -g group -t first", "broker-a"),
    exact("producerConnection -g nobody -t first", "CODE: 1"),
    exact("consumerConnection -g nobody", "CODE: 17"),
    exact("consumerConnection -g consumer-of-first", "CODE: 206"),
    shape("consumerProgress", "#Group"),
    shape("consumerProgress -g consumer-of-first", "first"),
    exact("consumerStatus -g consumer-of-first", "CODE: 206"),
    exact("cloneGroupOffset -s consumer-of-first -d group -t first -o true", "clone group offset success"),
    shape("queryMsgByKey -t first -k nothing", "no message"),
    shape("queryMsgByUniqueKey -t first -i 7F0000012B9C30F39E0E000000000000", "no message"),
    any_order("queryMsgByOffset -t first -b broker-a -i 0 -o 0", "OffsetID"),
    exact("queryMsgTraceById -i 7F0000012B9C30F39E0E000000000000", "CODE: 17"),
    any_order("printMsgByQueue -t first -a broker-a -i 0 -p true", "MSGID"),
    any_order("printMsg -t first -d false", "MSGID"),
    exact("queryMsgById -t first -i {first_message}", "OffsetID"),
    exact("queryCq -t first -q 0 -i 0", "ConsumeQueueData"),
    shape("sendMessage -t first -p hello", "SEND_OK"),
    shape("consumeMessage -t first -b broker-a -i 0 -o 0 -c 1", "Consume ok"),
    shape("checkMsgSendRT -t first -a 2 -s 10", "true"),
    shape("sendMsgStatus -b broker-a -s 10 -c 1", "sendStatus=SEND_OK"),
    exact("getParentTopicInfo -p first", "Parent Topic Info: [first]"),
    exact("getLiteTopicInfo -p first -l lite", "Lite Topic Info: [first] [lite]"),
    exact("getLiteClientInfo -p first -g group -c client", "Lite Client Info: [first] [group] [client]"),
    shape("getLiteGroupInfo -p first -g group", "Lite Group Info: [group] [first]"),
    exact("triggerLiteDispatch -p first -g group", "broker-a"),
    exact("deleteSubGroup -c {cluster} -g group", "delete subscription group [group] from broker"),
    // Users and rights.
    exact("createUser -c {cluster} -u user-{side} -p secret", "success"),
    exact("updateUser -c {cluster} -u user-{side} -p other", "success"),
    exact("getUser -c {cluster} -u user-{side}", "user-SIDE"),
    exact("createAcl -c {cluster} -s User:user-{side} -r Topic:first -a Pub -d Allow", "success"),
    exact("updateAcl -c {cluster} -s User:user-{side} -r Topic:first -a Sub -d Allow", "success"),
    exact("getAcl -c {cluster} -s User:user-{side}", "Topic:first"),
    any_order("listAcl -c {cluster}", "user-SIDE"),
    exact("deleteAcl -c {cluster} -s User:user-{side}", "success"),
    any_order("listUser -c {cluster}", "user-SIDE"),
    exact("deleteUser -c {cluster} -u user-{side}", "success"),
    // Static topics, last: the tool cannot export a broker that has one.
    shape("updateStaticTopic -c {cluster} -t fixed-{side} -qn 4", "The new mapping data is written to file"),
    shape("remappingStaticTopic -c {cluster} -t fixed-{side}", "The old mapping data is written to file"),
    shape("topicRoute -t fixed-{side}", "broker-a"),
];

/// Commands that speak with the broker, a controller or a container alone, even when a name server is named.
pub(crate) const DIRECT: &[Case] = &[
    exact("addBroker -c 127.0.0.1:1 -b nothing", "connect to 127.0.0.1:1 failed"),
    exact("removeBroker -c 127.0.0.1:1 -b peers:broker-a:0", "connect to 127.0.0.1:1 failed"),
    exact("resetMasterFlushOffset -b {broker} -o 0", "success"),
    shape("brokerStatus -b {broker}", "brokerVersionDesc"),
    shape("brokerConsumeStats -b {broker}", "#Topic"),
    shape("producer -b {broker}", ""),
    exact("updateTopic -b {broker} -t third -r 2 -w 2", "create topic to"),
    exact("getControllerMetaData -a 127.0.0.1:1", "connect to 127.0.0.1:1 failed"),
    exact("getControllerConfig -a 127.0.0.1:1", "connect to 127.0.0.1:1 failed"),
    exact("updateControllerConfig -a 127.0.0.1:1 -k key -v value", "connect to 127.0.0.1:1 failed"),
    exact("electMaster -a 127.0.0.1:1 -bn broker-a -c peers -b 0", "connect to 127.0.0.1:1 failed"),
    exact("cleanBrokerMetadata -a 127.0.0.1:1 -bn broker-a -c peers -l", "connect to 127.0.0.1:1 failed"),
    exact("copyUser -f {broker} -t {broker}", ""),
    exact("copyAcl -f {broker} -t {broker}", ""),
];

/// Commands that are not run, and why.
pub(crate) const NOT_RUN: &[(&str, &str)] = &[
    ("startMonitoring", "runs until it is killed; asks 206 and 105 as statsAll does"),
    ("clusterRT", "runs until it is killed; asks 106 and 105 as clusterList and sendMessage do"),
    ("dumpCompactionLog", "reads a local file"),
    ("exportMetadataInRocksDB", "reads a local folder"),
];

/// The files that some commands read.
pub(crate) fn write_files(folder: &Path) {
    let topics = r#"[{"topicName":"third","readQueueNums":2,"writeQueueNums":2,"perm":6}]"#;
    let groups = r#"[{"groupName":"another"}]"#;
    fs::write(folder.join("topics.json"), topics).expect("write topics.json");
    fs::write(folder.join("groups.json"), groups).expect("write groups.json");
}
