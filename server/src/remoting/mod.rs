//! The remoting protocol, without I/O: bytes in, requests out; answers in, bytes out.
