//! What a RocketMQ name server's registry means, once, for every lock strategy.
#![forbid(unsafe_code)]

pub mod json;
mod value;

pub use value::{
    ConnectionId, DataVersion, Millis, Name, QueueSettings, RegisterBody, Registration, TopicMapping, TopicTable,
    Unregistration,
};
