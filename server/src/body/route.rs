//! `TopicRouteData`: the body of `REGISTER_TOPIC_IN_NAMESRV` (217), of which only `queueDatas` counts.

use registry_core::{Name, QueueSettings};

use super::{BodyError, BodyLimits, check_count, parse_whole, read_name};
use crate::json::Reader;

/// Parses a topic's queues: the broker's name and the settings, in the order sent.
///
/// Empty when there is nothing to do: no body, `null`, no list, or a list with an entry that is null or names no
/// broker. The latter is a broker that nobody knows, and one such refuses the list. Absent numbers are 0.
///
/// # Errors
/// When the body is anything but one object of JSON, a number in it is none, or a limit is exceeded.
pub fn parse_topic_route(body: Option<&[u8]>, limits: &BodyLimits) -> Result<Vec<(Name, QueueSettings)>, BodyError> {
    let Some(body) = body.filter(|body| !body.is_empty()) else { return Ok(Vec::new()) };
    let queues = parse_whole(body, |reader| read_route(reader, limits))?;
    Ok(queues.unwrap_or_default())
}

fn read_route(reader: &mut Reader<'_>, limits: &BodyLimits) -> Result<Vec<(Name, QueueSettings)>, BodyError> {
    let mut queues = Vec::new();
    reader.begin_object()?;
    while let Some(key) = reader.next_key()? {
        match &*key {
            "queueDatas" => queues = read_queues(reader, limits)?,
            _ => reader.skip_value()?,
        }
    }
    Ok(queues)
}

fn read_queues(reader: &mut Reader<'_>, limits: &BodyLimits) -> Result<Vec<(Name, QueueSettings)>, BodyError> {
    let mut queues = Vec::new();
    let mut are_named = true;
    if reader.null()? {
        return Ok(queues);
    }
    reader.begin_array()?;
    while reader.next_element()? {
        check_count(queues.len(), "queue_datas_max", limits.queue_datas_max)?;
        match read_queue(reader, limits)? {
            Some(queue) => queues.push(queue),
            None => are_named = false,
        }
    }
    Ok(if are_named { queues } else { Vec::new() })
}

fn read_queue(reader: &mut Reader<'_>, limits: &BodyLimits) -> Result<Option<(Name, QueueSettings)>, BodyError> {
    if reader.null()? {
        return Ok(None);
    }
    let mut broker = None;
    let mut settings = QueueSettings { read_queues: 0, write_queues: 0, perm: 0, topic_sys_flag: 0 };
    reader.begin_object()?;
    while let Some(key) = reader.next_key()? {
        match &*key {
            "brokerName" => broker = read_name(reader, limits)?,
            "perm" => settings.perm = reader.integer32()?.unwrap_or(0),
            "readQueueNums" => settings.read_queues = reader.integer32()?.unwrap_or(0),
            "topicSysFlag" => settings.topic_sys_flag = reader.integer32()?.unwrap_or(0),
            "writeQueueNums" => settings.write_queues = reader.integer32()?.unwrap_or(0),
            _ => reader.skip_value()?,
        }
    }
    Ok(broker.map(|broker| (broker, settings)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(body: &str) -> Result<Vec<(Name, QueueSettings)>, BodyError> {
        parse_topic_route(Some(body.as_bytes()), &BodyLimits::default())
    }

    fn queue(
        broker: &str,
        read_queues: i32,
        write_queues: i32,
        perm: i32,
        topic_sys_flag: i32,
    ) -> (Name, QueueSettings) {
        (broker.into(), QueueSettings { read_queues, write_queues, perm, topic_sys_flag })
    }

    #[test]
    fn queues_as_sent() {
        let body = r#"{"brokerDatas":[{"brokerAddrs":{0:"x"}}],"filterServerTable":{},"queueDatas":[
            {"brokerName":"b","perm":7,"readQueueNums":"3","topicSysFlag":1,"writeQueueNums":5,"topicSynFlag":9},
            {"brokerName":"a"},{"brokerName":"a","perm":null,"readQueueNums":9}]}"#;
        assert_eq!(parse(body), Ok(vec![queue("b", 3, 5, 7, 1), queue("a", 0, 0, 0, 0), queue("a", 9, 0, 0, 0)]));
    }

    #[test]
    fn nothing_to_do() {
        assert_eq!(parse_topic_route(None, &BodyLimits::default()), Ok(Vec::new()));
        for body in [
            "",
            "null",
            "{}",
            r#"{"queueDatas":null}"#,
            r#"{"queueDatas":[]}"#,
            r#"{"queueDatas":[{"brokerName":"a"},{"perm":6}]}"#,
            r#"{"queueDatas":[null,{"brokerName":"a"}]}"#,
            r#"{"queueDatas":[{"brokerName":"a"}],"queueDatas":[]}"#,
        ] {
            assert_eq!(parse(body), Ok(Vec::new()), "{body}");
        }
    }

    #[test]
    fn refusals() {
        for body in
            ["[]", " ", "{bad", r#"{"queueDatas":{}}"#, r#"{"queueDatas":[1]}"#, r#"{"queueDatas":[{"perm":"x"}]}"#]
        {
            assert!(matches!(parse(body), Err(BodyError::Json(_))), "{body}");
        }
        let limits = BodyLimits { queue_datas_max: 1, name_bytes_max: 3, ..BodyLimits::default() };
        let parse = |body: &str| parse_topic_route(Some(body.as_bytes()), &limits);
        assert!(parse(r#"{"queueDatas":[{"brokerName":"abc"}]}"#).is_ok());
        assert_eq!(
            parse(r#"{"queueDatas":[{"brokerName":"a"},{"brokerName":"a"}]}"#),
            Err(BodyError::TooMany { limit_name: "queue_datas_max", limit: 1 })
        );
        assert_eq!(
            parse(r#"{"queueDatas":[{"brokerName":"abcd"}]}"#),
            Err(BodyError::TooLong { bytes: 4, limit_name: "name_bytes_max", limit: 3 })
        );
    }
}
