//! The JSON that the original writes: compact, and strings escaped as fastjson2 escapes them.

/// Appends `text` as a JSON string with its quotes.
///
/// Escapes `"`, `\`, and the control characters below 0x20: by letter where JSON has one, else `\u00xx` with
/// lower-case digits. Everything else is written as it is. Cost: O(n), no allocation beyond `out`.
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut clean = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&bytes[clean..at]);
        clean = at + 1;
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                out.extend_from_slice(&[
                    b'\\',
                    b'u',
                    b'0',
                    b'0',
                    HEX[usize::from(byte >> 4)],
                    HEX[usize::from(byte & 15)],
                ]);
            }
        }
    }
    out.extend_from_slice(&bytes[clean..]);
    out.push(b'"');
}

/// Bytes that [`write_string`] appends for `text`.
pub fn string_len(text: &str) -> usize {
    let escapes = text.bytes().map(|byte| match byte {
        b'"' | b'\\' | 0x08 | 0x0c | b'\n' | b'\r' | b'\t' => 1,
        0..0x20 => 5,
        _ => 0,
    });
    text.len() + 2 + escapes.sum::<usize>()
}

/// Appends an integer in decimal, without the formatting machinery: this runs for every answer.
pub fn write_int(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::{string_len, write_int, write_string};

    #[test]
    fn escapes_what_fastjson2_escapes() {
        let mut out = Vec::new();
        let all: String = ('\0'..'\u{100}').collect();
        write_string(&mut out, &all);
        assert_eq!(out.len(), string_len(&all));
        out.clear();
        write_string(&mut out, "a\"b\\c\u{8}\u{c}\n\r\t\u{1}\u{1f}\u{7f}/<é\u{2028}😀");
        assert_eq!(String::from_utf8(out).unwrap(), "\"a\\\"b\\\\c\\b\\f\\n\\r\\t\\u0001\\u001f\u{7f}/<é\u{2028}😀\"");
    }

    #[test]
    fn integers_are_written_as_they_are_formatted() {
        let edges = [0, 9, 10, 99, 100, i64::from(i32::MAX), i64::from(i32::MIN), i64::MAX, i64::MIN];
        for value in edges.into_iter().flat_map(|edge| [edge, edge.wrapping_add(1), edge.wrapping_neg()]) {
            let mut out = Vec::new();
            write_int(&mut out, value);
            assert_eq!(String::from_utf8(out).unwrap(), value.to_string());
        }
    }
}
