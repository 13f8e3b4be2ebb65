//! A proxy in front of a name server that notes the codes of the requests on their way.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// The proxy; it takes connections until the process ends.
#[derive(Debug)]
pub(crate) struct Tap {
    addr: SocketAddr,
    codes: Arc<Mutex<BTreeSet<i64>>>,
}

impl Tap {
    pub(crate) fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("listen");
        let addr = listener.local_addr().expect("an address");
        let codes = Arc::default();
        let noted = Arc::clone(&codes);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let noted = Arc::clone(&noted);
                thread::spawn(move || serve(client, server, &noted));
            }
        });
        Self { addr, codes }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The codes noted since the last call.
    pub(crate) fn take_codes(&self) -> BTreeSet<i64> {
        std::mem::take(&mut self.codes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn serve(client: TcpStream, server: SocketAddr, codes: &Mutex<BTreeSet<i64>>) -> Option<()> {
    let server = TcpStream::connect(server).ok()?;
    let (mut answers, mut client_writer) = (server.try_clone().ok()?, client.try_clone().ok()?);
    thread::spawn(move || {
        let _ = io::copy(&mut answers, &mut client_writer);
        let _ = client_writer.shutdown(Shutdown::Both);
    });
    let _ = forward_requests(client, &server, codes);
    server.shutdown(Shutdown::Both).ok()
}

/// Notes a request before it is passed on, so that whoever has the answer finds the code noted.
fn forward_requests(mut client: TcpStream, mut server: &TcpStream, codes: &Mutex<BTreeSet<i64>>) -> io::Result<()> {
    loop {
        let mut frame = vec![0; 4];
        client.read_exact(&mut frame)?;
        let length = u32::from_be_bytes([frame[0], frame[1], frame[2], frame[3]]) as usize;
        frame.resize(4 + length, 0);
        client.read_exact(&mut frame[4..])?;
        let code = code_of(&frame).ok_or(io::ErrorKind::InvalidData)?;
        codes.lock().unwrap_or_else(PoisonError::into_inner).insert(code);
        server.write_all(&frame)?;
    }
}

/// The tool sends JSON headers: the length of the frame, a type byte 0 with the length of the header, the header.
fn code_of(frame: &[u8]) -> Option<i64> {
    let header_length = usize::from(frame.get(5).copied()?) << 16
        | usize::from(frame.get(6).copied()?) << 8
        | usize::from(frame.get(7).copied()?);
    let header: serde_json::Value = serde_json::from_slice(frame.get(8..8 + header_length)?).ok()?;
    header.get("code")?.as_i64()
}
