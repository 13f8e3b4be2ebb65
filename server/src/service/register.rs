//! `REGISTER_BROKER` (103): checked, recognised or parsed on the thread for it, then given to the writer.

use registry_core::{Command, LiveKey, Reader, Refusal, RegisterBody, Registered, Registration, View, query};
use tracing::{Level, debug, info};
use xxhash_rust::xxh3::Xxh3;

use super::{Answer, Call, Handled, OffWorker, Service, route::ORDER_TOPIC_CONFIG};
use crate::{
    body::{BodyError, BodyLimits, Quoted, is_zlib, likely_bytes, parse_register_body},
    counters::Kind,
    logging::Limit,
    remoting::{ResponseCode, ResponseHeader},
};

static IGNORED: Limit = Limit::new(Level::INFO, "registration_ignored");

impl<R: Reader> OffWorker<R> {
    /// Checks and parses a registration. One that would change nothing is answered without being parsed.
    pub(super) fn register(&mut self, call: Call<'_>, out: &mut Vec<u8>) -> Handled {
        let ext = &call.request.ext;
        let crc = ext.get_i32("bodyCrc32").unwrap_or(0);
        if crc != 0 && crc != crc_of(call.body) {
            self.shared.counters.count(Kind::BadRequest, "bad_crc");
            self.refuse(call.request.opaque, out, "crc32 not match");
            return Handled::Answered;
        }
        let (Some(cluster), Some(broker_name), Some(broker_addr), Some(broker_id)) =
            (call.name("clusterName"), call.name("brokerName"), call.name("brokerAddr"), ext.get_i64("brokerId"))
        else {
            return self.missing(call, out, "clusterName, brokerName, brokerAddr or brokerId");
        };

        self.shared.origins.note(call.source.unwrap_or(call.peer).ip(), &broker_addr);
        let key = LiveKey { cluster, addr: broker_addr };
        let fingerprint = self.fingerprint(call);
        let now = self.now();
        let unchanged = self
            .reader
            .read(|view| Ok(query::unchanged_registration(view.root(), &key, call.connection, fingerprint, now)));
        if let Some(registered) = unchanged {
            self.registered(call.request.opaque, &registered, out);
            return Handled::Answered;
        }

        let body = match self.parse(call) {
            Ok(body) => body,
            Err(Unparsed::Bad(error)) => return self.bad_body(call, out, &error),
            Err(Unparsed::NoMemory) => {
                self.busy(call.request.opaque, out);
                return Handled::Answered;
            }
        };
        let registration = Registration {
            cluster: key.cluster,
            broker_name,
            broker_id,
            broker_addr: key.addr,
            ha_addr: call.name("haServerAddr"),
            heartbeat_timeout_ms: ext.get_i64("heartbeatTimeoutMillis"),
            enable_acting_master: ext.get_bool("enableActingMaster"),
            zone: call.name("__ZONE_NAME"),
            connection: call.connection,
            source: call.registry_source(),
            body,
            fingerprint,
        };
        Handled::Change(Command::Register(Box::new(registration)), Answer::Registration)
    }

    /// Parses the body, for which memory is taken first: as much as it has bytes, or as an honest one inflates to. What
    /// inflates to more is tried again with the most that is allowed.
    fn parse(&mut self, call: Call<'_>) -> Result<RegisterBody, Unparsed> {
        let body = call.body.unwrap_or_default();
        let is_compressed = call.request.ext.get_bool("compressed").unwrap_or(false);
        let wall_ms = self.shared.clock.wall_ms();
        let most = BodyLimits::default().inflate_bytes_max;
        let likely = u32::try_from(likely_bytes(body)).unwrap_or(u32::MAX);
        for inflate_bytes_max in [likely.min(most), most] {
            self.charge = None;
            let bytes = if is_zlib(body) { inflate_bytes_max as usize } else { body.len() };
            self.charge = Some(call.account.charge(bytes).map_err(|_| Unparsed::NoMemory)?);
            let limits = BodyLimits { inflate_bytes_max, ..BodyLimits::default() };
            match parse_register_body(call.body, call.request.version, is_compressed, wall_ms, &limits) {
                Ok(body) => return Ok(body),
                Err(BodyError::InflatedTooLong(limit)) if limit < most => {}
                Err(error) => {
                    self.charge = None;
                    return Err(Unparsed::Bad(error));
                }
            }
        }
        Err(Unparsed::Bad(BodyError::InflatedTooLong(most)))
    }
}

impl<R: Reader> Service<R> {
    /// A registration counts as a heartbeat when it arrives, over the connection that carries the broker: how long it then
    /// waits to be read is not the broker's silence.
    pub(super) fn note_arrival(&mut self, call: Call<'_>) {
        let (Some(cluster), Some(addr)) = (call.name("clusterName"), call.name("brokerAddr")) else { return };
        let (key, now) = (LiveKey { cluster, addr }, self.now());
        self.reader.read(|view| Ok(query::arrival(view.root(), &key, call.connection, now)));
    }

    pub(super) fn refused(&self, opaque: i32, refusal: &Refusal, out: &mut Vec<u8>) {
        let reason = match refusal {
            Refusal::SingleTopicFirst => "single_topic_first",
            Refusal::NoTopicTable => "no_topic_table",
            Refusal::IdHeld { .. } => "id_held",
            _ => reason_of_limit(refusal),
        };
        self.shared.counters.count(Kind::Refused, reason);
        match refusal {
            // The loser of an election is not told: the original answers as if it had registered.
            Refusal::IdHeld { broker_id, holder } => {
                if IGNORED.admits() {
                    let holder = Quoted::of(holder);
                    info!(broker_id, %holder, "registration ignored: a newer stateVersion holds the id");
                }
                self.registered(opaque, &Registered::default(), out);
            }
            _ => {
                debug!(%refusal, "registration refused");
                self.refuse(opaque, out, &refusal.to_string());
            }
        }
    }

    /// A known broker whose registration was taken but for some topics: it is told, for nobody will find them.
    pub(super) fn registered_in_part(&self, opaque: i32, left_out: usize, refusal: &Refusal, out: &mut Vec<u8>) {
        self.shared.counters.count(Kind::LeftOut, reason_of_limit(refusal));
        debug!(left_out, %refusal, "registered in part");
        self.refuse(opaque, out, &format!("registered without {left_out} topics: {refusal}"));
    }

    /// A change that a limit forbids.
    pub(super) fn over_limit(&self, opaque: i32, refusal: &Refusal, out: &mut Vec<u8>) {
        self.shared.counters.count(Kind::BadRequest, reason_of_limit(refusal));
        self.fail(opaque, out, ResponseCode::SystemError, &refusal.to_string());
    }

    fn refuse(&self, opaque: i32, out: &mut Vec<u8>, remark: &str) {
        let header = ResponseHeader::new(ResponseCode::SystemError, opaque);
        self.shared.encoder.respond(out, &ResponseHeader { remark: Some(remark), ext: Some(&[]), ..header });
    }

    pub(super) fn registered(&self, opaque: i32, registered: &Registered, out: &mut Vec<u8>) {
        let mut ext: Vec<(&str, &str)> = Vec::new();
        if let Some(master) = &registered.master {
            ext.extend(master.ha_addr.as_deref().map(|ha_addr| ("haServerAddr", ha_addr)));
            ext.push(("masterAddr", &master.addr));
        }
        let header = ResponseHeader::new(ResponseCode::Success, opaque);
        let mark = self.shared.encoder.begin(out, &ResponseHeader { ext: Some(&ext), ..header });
        if self.shared.config.live().return_order_topic_config_to_broker()
            && let Some(table) = self.shared.kv.table_body(ORDER_TOPIC_CONFIG)
        {
            out.extend_from_slice(&table);
        }
        self.shared.encoder.finish(out, mark);
    }

    /// Hash of everything that decides what a registration does: its fields, its body, and the setting that makes
    /// registrations delete topics. Never 0.
    fn fingerprint(&self, call: Call<'_>) -> u128 {
        let mut hash = Xxh3::new();
        let live = self.shared.config.live();
        hash.update(&[u8::from(live.delete_topic_with_broker_registration())]);
        hash.update(&call.request.version.to_be_bytes());
        for field in [
            "brokerName",
            "brokerId",
            "haServerAddr",
            "heartbeatTimeoutMillis",
            "enableActingMaster",
            "__ZONE_NAME",
            "compressed",
        ] {
            let value = call.request.ext.get(field);
            let length = value.map_or(u64::MAX, |value| value.len() as u64);
            hash.update(&length.to_be_bytes());
            hash.update(value.unwrap_or_default().as_bytes());
        }
        hash.update(call.body.unwrap_or_default());
        hash.digest128().max(1)
    }
}

fn reason_of_limit(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::TableFull { .. } => "table_full",
        Refusal::ShareFull { .. } => "share_full",
        Refusal::TooLong { .. } => "too_long",
        _ => "other",
    }
}

/// Why there is no parsed body.
enum Unparsed {
    Bad(BodyError),
    NoMemory,
}

/// The checksum of a body as brokers compute it (`UtilAll.crc32`): without the sign bit, 0 for no body.
fn crc_of(body: Option<&[u8]>) -> i32 {
    let crc = body.map_or(0, crc32fast::hash) & 0x7fff_ffff;
    i32::try_from(crc).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::crc_of;

    #[test]
    fn the_checksum_is_that_of_the_original() {
        assert_eq!(crc_of(Some(br#"{"filterServerList":[],"topicConfigSerializeWrapper":{}}"#)), 458_560_686);
        assert_eq!(crc_of(None), 0);
    }
}
