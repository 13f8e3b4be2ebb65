//! A pull parser for the JSON that RocketMQ peers send, which is more than JSON.
