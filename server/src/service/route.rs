//! `GET_ROUTEINFO_BY_TOPIC` (105): the request that everything is built for.

use registry_core::{KeyStyle, Reader, query::RouteQuery};

use super::{Call, Handled, Service};
use crate::remoting::{ResponseCode, codes::VERSION_4_9_4};

/// KV namespace of the order configurations (`NamesrvUtil.NAMESPACE_ORDER_TOPIC_CONFIG`).
pub(super) const ORDER_TOPIC_CONFIG: &str = "ORDER_TOPIC_CONFIG";

impl<R: Reader> Service<R> {
    pub(super) fn route(&mut self, call: Call<'_>, out: &mut Vec<u8>) -> Handled {
        let live = self.shared.config.live();
        if live.need_wait_for_service() && self.now().0 < u64::from(live.wait_seconds_for_service()) * 1_000 {
            return self.error(call, out, ResponseCode::SystemError, "name server not ready");
        }
        let ext = &call.request.ext;
        let Some(topic) = ext.get("topic") else {
            return self.no_route(call, out, "null");
        };
        let is_standard =
            call.request.version >= VERSION_4_9_4 || ext.get_bool("acceptStandardJsonOnly").unwrap_or(false);
        let order_conf = live.order_message_enable().then(|| self.shared.kv.value(ORDER_TOPIC_CONFIG, topic)).flatten();
        let zone = if ext.get_bool("__ZONE_MODE").unwrap_or(false) { ext.get("__ZONE_NAME") } else { None };
        let query = RouteQuery {
            topic,
            // Clients before 4.9.4 break on quoted keys, later ones may read JSON only.
            style: if is_standard { KeyStyle::Quoted } else { KeyStyle::Bare },
            acting_master: live.support_acting_master(),
            zone: zone.filter(|zone| !zone.trim().is_empty()),
            order_conf: order_conf.as_deref(),
        };

        let start = out.len();
        let mark = self.shared.encoder.begin_success(out, call.request.opaque);
        if self.reader.read(|view| self.routes.route(view, &query, out)) {
            self.shared.encoder.finish(out, mark);
            return Handled::Answered;
        }
        out.truncate(start);
        self.no_route(call, out, topic)
    }

    fn no_route(&self, call: Call<'_>, out: &mut Vec<u8>, topic: &str) -> Handled {
        let remark = format!(
            "No topic route info in name server for the topic: {topic}\n\
             See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
        );
        self.error(call, out, ResponseCode::TopicNotExist, &remark)
    }
}
