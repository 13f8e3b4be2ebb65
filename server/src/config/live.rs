//! The settings that take effect while the server runs.

use std::sync::atomic::{AtomicU64, Ordering};

/// A setting that an update changes at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum LiveKey {
    /// `enableAllTopicList`: whether GET_ALL_TOPIC_LIST_FROM_NAMESERVER is answered.
    EnableAllTopicList,
    /// `enableTopicList`: whether the other topic lists are answered.
    EnableTopicList,
    /// `orderMessageEnable`: whether a route carries the order configuration of its topic.
    OrderMessageEnable,
    /// `returnOrderTopicConfigToBroker`: whether a registration is answered with the order configurations.
    ReturnOrderTopicConfigToBroker,
    /// `supportActingMaster`: whether a slave stands in for a lost master in routes.
    SupportActingMaster,
    /// `notifyMinBrokerIdChanged`: whether brokers are told of a new smallest id.
    NotifyMinBrokerIdChanged,
    /// `needWaitForService`: whether routes are refused for a while after the start.
    NeedWaitForService,
    /// `deleteTopicWithBrokerRegistration`: whether a registration removes topics it does not name.
    DeleteTopicWithBrokerRegistration,
    /// `waitSecondsForService`: how long routes are refused; the one number.
    WaitSecondsForService,
}

/// One state of all live settings, taken by [`LiveConfig::load`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Live(u64);

/// The live settings, shared by all threads. They fit one word, so a reader sees an update whole or not at all, for
/// the price of one atomic load.
#[derive(Debug, Default)]
pub struct LiveConfig(AtomicU64);

impl LiveConfig {
    /// Settings that begin as `live`.
    pub fn new(live: Live) -> Self {
        Self(AtomicU64::new(live.0))
    }

    /// The settings now. An update that was acknowledged before is seen. Never waits.
    pub fn load(&self) -> Live {
        Live(self.0.load(Ordering::Acquire))
    }

    pub(super) fn store(&self, live: Live) {
        self.0.store(live.0, Ordering::Release);
    }
}

macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident = $key:ident;)*) => {
        impl Live {
            $($(#[$doc])* pub fn $name(self) -> bool { self.0 & flag(LiveKey::$key) != 0 })*
        }
    };
}

flags! {
    /// See [`LiveKey::EnableAllTopicList`].
    enable_all_topic_list = EnableAllTopicList;
    /// See [`LiveKey::EnableTopicList`].
    enable_topic_list = EnableTopicList;
    /// See [`LiveKey::OrderMessageEnable`].
    order_message_enable = OrderMessageEnable;
    /// See [`LiveKey::ReturnOrderTopicConfigToBroker`].
    return_order_topic_config_to_broker = ReturnOrderTopicConfigToBroker;
    /// See [`LiveKey::SupportActingMaster`].
    support_acting_master = SupportActingMaster;
    /// See [`LiveKey::NotifyMinBrokerIdChanged`].
    notify_min_broker_id_changed = NotifyMinBrokerIdChanged;
    /// See [`LiveKey::NeedWaitForService`].
    need_wait_for_service = NeedWaitForService;
    /// See [`LiveKey::DeleteTopicWithBrokerRegistration`].
    delete_topic_with_broker_registration = DeleteTopicWithBrokerRegistration;
}

impl Live {
    /// See [`LiveKey::WaitSecondsForService`].
    pub fn wait_seconds_for_service(self) -> u32 {
        (self.0 >> SECONDS_SHIFT) as u32
    }

    /// The same settings with the flag `key` as `on` says. Meant for tests and for composing a state; the number has
    /// its own method.
    #[must_use]
    pub fn with_flag(self, key: LiveKey, on: bool) -> Self {
        Self(if on { self.0 | flag(key) } else { self.0 & !flag(key) })
    }

    /// The same settings with another [`LiveKey::WaitSecondsForService`].
    #[must_use]
    pub fn with_wait_seconds(self, seconds: u32) -> Self {
        Self(self.0 & FLAGS | u64::from(seconds) << SECONDS_SHIFT)
    }
}

const SECONDS_SHIFT: u32 = 32;
const FLAGS: u64 = (1 << SECONDS_SHIFT) - 1;

const fn flag(key: LiveKey) -> u64 {
    1 << key as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_do_not_touch_each_other() {
        let live = Live::default().with_wait_seconds(u32::MAX).with_flag(LiveKey::EnableTopicList, true);
        assert_eq!(live.wait_seconds_for_service(), u32::MAX);
        assert!(live.enable_topic_list());
        assert!(!live.enable_all_topic_list() && !live.delete_topic_with_broker_registration());
        let live = live.with_flag(LiveKey::DeleteTopicWithBrokerRegistration, true).with_wait_seconds(0);
        assert_eq!(live.with_flag(LiveKey::EnableTopicList, false).wait_seconds_for_service(), 0);
        assert!(live.enable_topic_list() && live.delete_topic_with_broker_registration());
        let shared = LiveConfig::new(Live::default());
        shared.store(live);
        assert_eq!(shared.load(), live);
    }
}
