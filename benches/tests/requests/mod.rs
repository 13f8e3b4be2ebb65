//! A server that answers as a test wants.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use server::{
    limits::Limits,
    remoting::{Decoded, FrameDecoder, Request},
};

/// Answers each request of a connection, told by its opaque, until there is no answer.
pub(crate) fn answer_each(mut stream: TcpStream, mut answer: impl FnMut(i32) -> Option<Vec<u8>>) {
    let limits = Limits::default();
    let (mut input, mut chunk) = (Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = stream.read(&mut chunk) {
        input.extend_from_slice(&chunk[..read]);
        while let Ok(Decoded::Frame(frame)) = FrameDecoder::new().decode(&input, &limits) {
            let opaque = Request::decode(&frame, &limits).unwrap().opaque;
            let consumed = frame.consumed;
            input.drain(..consumed);
            let Some(answer) = answer(opaque) else { return };
            let _ = stream.write_all(&answer);
        }
    }
}
