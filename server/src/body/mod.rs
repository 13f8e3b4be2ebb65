//! Bodies of requests: registrations, data versions, topic routes.
