//! Standard streams that cannot be written.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, PipeReader, PipeWriter, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;

/// Why a stream cannot be written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unwritable {
    /// The disk is full.
    DiskFull,
    /// A pipe whose reader takes one line and ends, as `head -1` does.
    Closed,
    /// A pipe that nobody reads, full before anything is written.
    Unread,
}

impl Unwritable {
    pub(crate) const ALL: [Self; 3] = [Self::DiskFull, Self::Closed, Self::Unread];

    /// The stream, and what must be held as long as it is to stay so.
    pub(crate) fn open(self) -> (Arc<OwnedFd>, Option<PipeReader>) {
        if let Self::DiskFull = self {
            let disk = File::options().write(true).open("/dev/full").expect("Linux's /dev/full");
            return (Arc::new(disk.into()), None);
        }
        let (reader, writer) = io::pipe().expect("a pipe");
        match self {
            Self::Unread => {
                fill(&writer);
                (Arc::new(writer.into()), Some(reader))
            }
            _ => {
                thread::spawn(move || BufReader::new(reader).read_line(&mut String::new()));
                (Arc::new(writer.into()), None)
            }
        }
    }
}

/// Writes to a pipe until nothing goes into it.
pub(crate) fn fill(mut pipe: &PipeWriter) {
    rustix::io::ioctl_fionbio(pipe, true).expect("a pipe that does not wait");
    let mut size = 4_096;
    while size > 0 {
        match pipe.write(&vec![b'\n'; size]) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => size /= 2,
            Err(error) => panic!("{error}"),
        }
    }
    rustix::io::ioctl_fionbio(pipe, false).expect("a pipe that waits");
}
