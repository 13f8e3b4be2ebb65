//! `DataVersion`: the body of `QUERY_DATA_VERSION` (322) and a part of registrations.

use registry_core::{DataVersion, json::write_int};

use super::{BodyError, parse_whole};
use crate::json::Reader;

/// Parses the body of `QUERY_DATA_VERSION`; `None` when there is none, or it is `null`.
///
/// Absent fields are 0, but an absent `timestamp` is `now_wall_ms`: an empty object equals no stored version.
///
/// # Errors
/// When the body is anything but one object of JSON, or a number in it is none.
pub fn parse_data_version(body: Option<&[u8]>, now_wall_ms: i64) -> Result<Option<DataVersion>, BodyError> {
    let Some(body) = body.filter(|body| !body.is_empty()) else { return Ok(None) };
    parse_whole(body, |reader| read_data_version(reader, now_wall_ms))
}

/// Appends a version as the original writes it: `{"counter":1,"stateVersion":0,"timestamp":1000}`, without a null counter.
pub fn write_data_version(out: &mut Vec<u8>, version: &DataVersion) {
    out.push(b'{');
    if let Some(counter) = version.counter {
        out.extend_from_slice(b"\"counter\":");
        write_int(out, counter);
        out.push(b',');
    }
    out.extend_from_slice(b"\"stateVersion\":");
    write_int(out, version.state_version);
    out.extend_from_slice(b",\"timestamp\":");
    write_int(out, version.timestamp);
    out.push(b'}');
}

/// The version that the original makes where a sender leaves it out.
pub(super) fn version_of_now(now_wall_ms: i64) -> DataVersion {
    DataVersion { state_version: 0, timestamp: now_wall_ms, counter: Some(0) }
}

/// Reads a version that is not null.
pub(super) fn read_data_version(reader: &mut Reader<'_>, now_wall_ms: i64) -> Result<DataVersion, BodyError> {
    let mut version = version_of_now(now_wall_ms);
    reader.begin_object()?;
    while let Some(key) = reader.next_key()? {
        match &*key {
            "counter" => version.counter = reader.integer()?,
            "stateVersion" => version.state_version = reader.integer()?.unwrap_or(0),
            "timestamp" => version.timestamp = reader.integer()?.unwrap_or(0),
            _ => reader.skip_value()?,
        }
    }
    Ok(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_795_971_484_217;

    fn parse(body: &str) -> Result<Option<DataVersion>, BodyError> {
        parse_data_version(Some(body.as_bytes()), NOW)
    }

    fn version(counter: Option<i64>, state_version: i64, timestamp: i64) -> DataVersion {
        DataVersion { state_version, timestamp, counter }
    }

    #[test]
    fn reads_what_brokers_send() {
        for (body, expected) in [
            (r#"{"counter":7,"stateVersion":2,"timestamp":5000}"#, version(Some(7), 2, 5000)),
            (r#"{"counter":7,"timestamp":5000}"#, version(Some(7), 0, 5000)),
            (r#" { "timestamp" : "5000" , "stateVersion" : "2" , "counter" : "7" } "#, version(Some(7), 2, 5000)),
            (r#"{"counter":null,"stateVersion":null,"timestamp":null}"#, version(None, 0, 0)),
            ("{}", version(Some(0), 0, NOW)),
            (r#"{"$ref":"$.x"}"#, version(Some(0), 0, NOW)),
            (
                r#"{"counter":9223372036854775807,"stateVersion":-5,"timestamp":-1,"x":[1]}"#,
                version(Some(i64::MAX), -5, -1),
            ),
        ] {
            assert_eq!(parse(body), Ok(Some(expected)), "{body}");
        }
        assert_eq!(parse("null"), Ok(None));
        assert_eq!(parse(""), Ok(None));
        assert_eq!(parse_data_version(None, NOW), Ok(None));
    }

    #[test]
    fn refuses_what_is_no_version() {
        for body in ["[]", "{bad", "7", " ", "\"x\"", r#"{"counter":7"#, r#"{"counter":[]}"#, r#"{"counter":1}x"#] {
            assert!(matches!(parse(body), Err(BodyError::Json(_))), "{body}");
        }
        assert!(matches!(parse_data_version(Some(b"{\"\xff\":1}"), NOW), Err(BodyError::Json(_))));
    }

    #[test]
    fn writes_what_the_original_writes() {
        for text in [
            r#"{"counter":1,"stateVersion":0,"timestamp":1000}"#,
            r#"{"stateVersion":0,"timestamp":1}"#,
            r#"{"counter":9223372036854775807,"stateVersion":-5,"timestamp":-1}"#,
        ] {
            let mut version = parse(text).unwrap().unwrap();
            if !text.contains("counter") {
                version.counter = None;
            }
            let mut out = Vec::new();
            write_data_version(&mut out, &version);
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }
}
