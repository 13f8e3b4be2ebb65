//! Route queries while brokers register all of their topics anew, whether or not the server keeps up.
