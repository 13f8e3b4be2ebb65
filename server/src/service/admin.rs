//! The KV configuration and the server's own: 100, 101, 102, 219, 318, 319.

use registry_core::{Command, Reader};
use tracing::{Level, info, warn};

use super::{Answer, Call, Handled, OffWorker, Service};
use crate::{
    config::UpdateRefusal,
    counters::Kind,
    kv::KvError,
    logging::Limit,
    remoting::{ResponseCode, ResponseHeader},
};

static KV_NOT_STORED: Limit = Limit::new(Level::WARN, "kv_not_stored");
static NOT_UPDATED: Limit = Limit::new(Level::WARN, "config_not_updated");
static UPDATED: Limit = Limit::new(Level::INFO, "config_updated");

impl<R: Reader> Service<R> {
    /// `GET_KV_CONFIG` (101).
    pub(super) fn get_kv(&mut self, call: Call<'_>, out: &mut Vec<u8>) -> Handled {
        let ext = &call.request.ext;
        let (namespace, key) = (ext.get("namespace"), ext.get("key"));
        let value = namespace.zip(key).and_then(|(namespace, key)| self.shared.kv.value(namespace, key));
        let Some(value) = value else {
            let (namespace, key) = (namespace.unwrap_or("null"), key.unwrap_or("null"));
            let remark = format!("No config item, Namespace: {namespace} Key: {key}");
            let header = ResponseHeader::new(ResponseCode::QueryNotFound, call.request.opaque);
            self.shared.encoder.respond(out, &ResponseHeader { remark: Some(&remark), ext: Some(&[]), ..header });
            return Handled::Answered;
        };
        let header = ResponseHeader::new(ResponseCode::Success, call.request.opaque);
        self.shared.encoder.respond(out, &ResponseHeader { ext: Some(&[("value", &value)]), ..header });
        Handled::Answered
    }

    /// `GET_KVLIST_BY_NAMESPACE` (219).
    pub(super) fn get_kv_list(&mut self, call: Call<'_>, out: &mut Vec<u8>) -> Handled {
        let namespace = call.request.ext.get("namespace");
        match namespace.and_then(|namespace| self.shared.kv.table_body(namespace)) {
            Some(body) => self.answer_with(call, out, |_, out| out.extend_from_slice(&body)),
            None => {
                let remark = format!("No config item, Namespace: {}", namespace.unwrap_or("null"));
                self.error(call, out, ResponseCode::QueryNotFound, &remark)
            }
        }
    }

    /// `GET_NAMESRV_CONFIG` (319).
    pub(super) fn get_config(&mut self, call: Call<'_>, out: &mut Vec<u8>) -> Handled {
        let text = self.shared.config.text();
        self.answer_with(call, out, |_, out| out.extend_from_slice(&text))
    }

    /// Whether this peer may change the configuration.
    ///
    /// A PROXY header can forbid, but not allow: it is only a claim.
    pub(super) fn may_configure(&self, call: Call<'_>) -> bool {
        let is_allowed = |address: std::net::SocketAddr| self.shared.config.is_admin_allowed(address.ip());
        is_allowed(call.peer) && call.source.is_none_or(is_allowed)
    }

    pub(super) fn forbidden(&self, call: Call<'_>, out: &mut Vec<u8>) -> Handled {
        self.not_updated(call, out, &UpdateRefusal::NotAllowed)
    }

    fn not_updated(&self, call: Call<'_>, out: &mut Vec<u8>, refusal: &UpdateRefusal) -> Handled {
        self.shared.counters.count(Kind::BadRequest, "config_update");
        if NOT_UPDATED.admits() {
            warn!(peer = %call.peer, %refusal, "configuration not updated");
        }
        let code = if refusal.code() == 16 { ResponseCode::NoPermission } else { ResponseCode::SystemError };
        self.error(call, out, code, &refusal.to_string())
    }
}

impl<R: Reader> OffWorker<R> {
    /// `PUT_KV_CONFIG` (100): on disk when it is answered.
    pub(super) fn put_kv(&mut self, call: Call<'_>, out: &mut Vec<u8>) -> Handled {
        let ext = &call.request.ext;
        let (Some(namespace), Some(key)) = (ext.get("namespace"), ext.get("key")) else {
            self.shared.counters.count(Kind::BadRequest, "missing_field");
            return self.error(call, out, ResponseCode::SystemError, "namespace or key is null");
        };
        let result = self.shared.kv.put(namespace, key, ext.get("value"));
        self.answer_kv(call, out, result)
    }

    /// `DELETE_KV_CONFIG` (102). What is unknown, or lacks a name, is as good as deleted.
    pub(super) fn delete_kv(&mut self, call: Call<'_>, out: &mut Vec<u8>) -> Handled {
        let ext = &call.request.ext;
        let result = match (ext.get("namespace"), ext.get("key")) {
            (Some(namespace), Some(key)) => self.shared.kv.delete(namespace, key),
            _ => Ok(()),
        };
        self.answer_kv(call, out, result)
    }

    fn answer_kv(&self, call: Call<'_>, out: &mut Vec<u8>, result: Result<(), KvError>) -> Handled {
        let Err(error) = result else {
            return self.success(call, out);
        };
        match &error {
            KvError::Storage(_) | KvError::Unwritable(_) => {
                self.shared.counters.count(Kind::Failure, "kv_not_stored");
                if KV_NOT_STORED.admits() {
                    warn!(%error, "the KV configuration could not be stored");
                }
            }
            _ => self.shared.counters.count(Kind::BadRequest, "kv_limit"),
        }
        self.error(call, out, ResponseCode::SystemError, &error.to_string())
    }

    /// `UPDATE_NAMESRV_CONFIG` (318): all of it or nothing, from allowed addresses only.
    pub(super) fn update_config(&mut self, call: Call<'_>, out: &mut Vec<u8>) -> Handled {
        let config = &self.shared.config;
        let updated = match config.update(call.body.unwrap_or_default()) {
            Ok(updated) => updated,
            Err(refusal) => return self.not_updated(call, out, &refusal),
        };
        let remark = updated.remark();
        if remark.is_some() {
            self.shared.counters.count(Kind::Failure, "config_not_stored");
        }
        if UPDATED.admits() {
            info!(peer = %call.peer, remark, "configuration updated");
        }
        // The one setting that the writer holds. The lane waits for the writer, so that it learns of updates in their order.
        let deletes = config.live().delete_topic_with_broker_registration();
        let answer = remark.map_or(Answer::Success, |remark| Answer::Remark(remark.into()));
        Handled::Change(Command::DeleteTopicWithRegistration(deletes), answer)
    }
}
