//! A file that is written in place and survives a crash all the same.
//!
//! What is to be written is first recorded behind the content, in the same file, and synced: a folder that cannot be
//! written, or that is gone with its container, need not hold anything. Only then the content is overwritten, synced,
//! and the record cut off:
//!
//! ```text
//! old content | zeros to the next block | # record: length and checksum | new content      a crash here: old or new
//! new content | (the rest is old)       | # record: length and checksum | new content      a crash here: new
//! new content
//! ```
//!
//! The record begins a block of its own, so that no block of the old content is written before the record is whole. A
//! record that is not whole is as good as none: the old content is what stands before it, or before the first zero.

use std::io::ErrorKind;
use std::path::Path;

use super::{FILE_BYTES_MAX, Storage, StorageError, failed};

/// Of what disks write as a whole, the most that is common.
const BLOCK_BYTES: usize = 4_096;
/// Begins a record. A comment in a properties file; no value in one of ours can hold it, because line ends are escaped.
const MARK: &[u8] = b"\n#namesrv-record ";
/// Stands for no content, so that the zeros of a file that has grown are behind something.
const BLANK: &[u8] = b"\n";
/// `MARK`, length and checksum of the new content, and the end of the line.
const HEAD_BYTES: usize = MARK.len() + 8 + 1 + 8 + 1;

/// Writes `bytes` into the file `path`, which exists.
pub(super) fn write(storage: &dyn Storage, path: &Path, bytes: &[u8]) -> Result<(), StorageError> {
    let mut length = settle(storage, path)?;
    if length == 0 {
        storage.write_at_synced(path, 0, BLANK).map_err(failed("write", path))?;
        length = BLANK.len();
    }
    let offset = (length.max(bytes.len())).next_multiple_of(BLOCK_BYTES);
    let record = record(bytes);
    if (offset + record.len()) as u64 > FILE_BYTES_MAX {
        let message = format!("longer than FILE_BYTES_MAX {FILE_BYTES_MAX} with its record");
        return Err(failed("write", path)(std::io::Error::new(ErrorKind::FileTooLarge, message)));
    }
    if let Err(error) = storage.write_at_synced(path, offset as u64, &record) {
        // A disk that is full has room for what was there before.
        let _ = storage.truncate_synced(path, length as u64);
        return Err(failed("write", path)(error));
    }
    overwrite(storage, path, bytes)
}

/// Completes a [`write`] that was interrupted, and says how long the file is.
pub(super) fn settle(storage: &dyn Storage, path: &Path) -> Result<usize, StorageError> {
    let raw = storage.read_raw(path).map_err(failed("read", path))?.unwrap_or_default();
    match Content::of(&raw) {
        Content::Settled => return Ok(raw.len()),
        Content::Old { length } => storage.truncate_synced(path, length as u64).map_err(failed("write", path))?,
        Content::New { start } => overwrite(storage, path, &raw[start..])?,
    }
    Ok(settled(raw).len())
}

/// The content of a file with these bytes.
pub(super) fn settled(mut raw: Vec<u8>) -> Vec<u8> {
    match Content::of(&raw) {
        Content::Settled => {}
        Content::Old { length } => raw.truncate(length),
        Content::New { start } => drop(raw.drain(..start)),
    }
    raw
}

fn overwrite(storage: &dyn Storage, path: &Path, bytes: &[u8]) -> Result<(), StorageError> {
    storage.write_at_synced(path, 0, bytes).map_err(failed("write", path))?;
    storage.truncate_synced(path, bytes.len() as u64).map_err(failed("write", path))
}

fn record(bytes: &[u8]) -> Vec<u8> {
    let head = format!("{:08x} {:08x}\n", bytes.len(), crc32fast::hash(bytes));
    [MARK, head.as_bytes(), bytes].concat()
}

/// Where the content is in the bytes of a file.
#[derive(Debug, PartialEq, Eq)]
enum Content {
    /// All of them.
    Settled,
    /// The first so many; what follows is a record that is not whole.
    Old { length: usize },
    /// All from here on: a whole record.
    New { start: usize },
}

impl Content {
    fn of(raw: &[u8]) -> Self {
        if raw == BLANK || raw == [0; BLANK.len()] {
            return Self::Old { length: 0 };
        }
        let mark = memchr::memmem::find(raw, MARK);
        if let Some(start) = mark.map(|at| at + HEAD_BYTES)
            && raw.get(start..).is_some_and(|new| raw[start - HEAD_BYTES..] == record(new))
        {
            return Self::New { start };
        }
        // A part of the mark at the end is a comment without a word, or zero.
        let zero = memchr::memchr(0, raw).filter(|&at| at > 0);
        let part =
            (2..MARK.len()).rev().find(|&length| raw.ends_with(&MARK[..length])).map(|length| raw.len() - length);
        match [mark, zero, part].into_iter().flatten().min() {
            Some(length) if raw[..length] == *BLANK => Self::Old { length: 0 },
            Some(length) => Self::Old { length },
            None => Self::Settled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_recorded_counts_when_it_is_whole() {
        let old = b"old".to_vec();
        assert_eq!(settled(old.clone()), old);
        let mut raw = old.clone();
        raw.resize(BLOCK_BYTES, 0);
        raw.extend(record(b"new content"));
        assert_eq!(settled(raw.clone()), b"new content");
        for length in old.len()..raw.len() {
            assert_eq!(settled(raw[..length].to_vec()), old, "{length}");
        }
        for at in BLOCK_BYTES..raw.len() {
            let mut damaged = raw.clone();
            damaged[at] = 0;
            assert_eq!(settled(damaged), old, "{at}");
        }
    }

    /// Zeros in front are damage, which the reader of the file has to name.
    #[test]
    fn a_file_of_zeros_is_not_empty() {
        assert_eq!(settled(vec![0; 5]), [0; 5]);
    }
}
