//! The rules of the protocol as scenarios that every strategy has to pass.
//!
//! Each is a function over a [`Registry`](crate::Registry), written once; [`conformance_suite!`](crate::conformance_suite)
//! makes one test of each in a module for each strategy, so that a failure reads `rwlock::register_then_route`.
//!
//! # Where the scenarios come from
//!
//! The tests of the original, by class:
//!
//! | test of the original | scenario |
//! |---|---|
//! | `RouteInfoManagerStaticRegisterTest` (9) | `a_static_cluster_is_listed_and_routed` |
//! | `RouteInfoManagerBrokerRegisterTest` `testMasterChangeFromSlave` | `a_slave_becomes_master` |
//! | ... `testUnregisterBroker` | `a_farewell_takes_one_member` |
//! | `RouteInfoManagerBrokerPermTest` (2) | `permissions_are_wiped_and_added` |
//! | `RouteInfoManagerTest` lists | `an_empty_registry_answers`, `cluster_info_bytes`, `lists_by_cluster`, `unit_flags_are_listed` |
//! | ... `testQueryBrokerTopicConfig` | `clusters_have_versions_of_their_own` |
//! | ... `testRegisterBroker`, `testPickupTopicRouteData` | `register_then_route` |
//! | ... `testWipe...`, `testAddWritePermOfBrokerByLock` | `permissions_are_wiped_and_added` |
//! | `RouteInfoManagerNewTest` `getAllClusterInfo` | `cluster_info_bytes` |
//! | ... `deleteTopic` | `topics_are_deleted` |
//! | ... `getAllTopicList` | `register_then_route`, `a_static_cluster_is_listed_and_routed` |
//! | ... `registerBroker` | `a_slave_is_told_its_master` |
//! | ... `unregisterBroker`, `unRegisterSlaveBroker` | `a_farewell_takes_one_member` |
//! | ... `registerSlaveBroker`, `createNewTopic` | `slaves_join_the_group` |
//! | ... `switchBrokerRole`, `switchBrokerRole_ChannelDestroy` | `roles_switch`, `roles_switch_by_lost_connections` |
//! | ... `unRegisterMasterBroker`, `pickupTopicRouteDataWithSlave` | `a_slave_acts_until_the_master_returns` |
//! | ... `unRegisterMasterBrokerOldVersion` | `slaves_without_acting_stay_slaves` |
//! | ... `submitMultiUnRegisterRequests` | `several_farewells` |
//! | ... `isBrokerTopicConfigChanged`, `isTopicConfigChanged`, `queryBrokerTopicConfig` | `versions_are_compared_whole`, `an_equal_version_changes_nothing_that_is_there` |
//! | ... `wipeWritePermOfBrokerByLock` | `permissions_are_wiped_and_added` |
//! | ... `pickupTopicRouteData` | `route_bytes`, `one_address_may_be_in_two_groups` |
//! | ... `scanNotActiveBroker` | `silence_expires_a_broker` |
//! | ... `pickupPartitionOrderTopicRouteData`, `pickupGlobalOrderTopicRouteData` | `only_the_group_without_master_is_rewritten`, `a_slave_acts_until_the_master_returns` |
//! | ... `registerOnlySlaveBroker` | `permissions_come_back_with_the_master` |
//! | ... `onChannelDestroy`, `onChannelDestroyByBrokerInfo` | `a_lost_connection_takes_its_broker` |
//! | ... `keepTopicWithBrokerRegistration` | `missing_topics_stay` |
//! | ... `deleteTopicWithBrokerRegistration`, `...2` | `missing_topics_go` |
//! | ... `registerSingleTopicWithBrokerRegistration` | `topics_are_registered_by_hand` |
//! | `ZoneRouteRPCHookTest` `testDoAfterResponseWithValidZoneFiltering` | `zones_show_their_own`, `acting_masters_count_in_their_zone` |
//! | `DataVersionTest` equality | `versions_are_compared_whole` |
//! | the recorded acting-master scenario | `three_brokers_take_turns` |
//! | other `ZoneRouteRPCHook*Test`, `RequestProcessorTest`, `ClusterTestRequestProcessorTest`, `KVConfig*Test`, `BrokerHousekeepingServiceTest`, start-up and controller tests | tests of the server |
//!
//! Cases from the field, by their number there:
//!
//! | case | scenario |
//! |---|---|
//! | 1 reconnecting broker vanishes | `the_late_loss_of_the_old_connection_takes_nobody`, `a_farewell_over_the_old_connection_is_late` |
//! | 2 farewell of a former id | `a_farewell_of_a_former_id_is_late` |
//! | 3 renamed broker | `a_renamed_broker_leaves_no_ghost` |
//! | 4 several brokers on one connection | `a_lost_connection_takes_all_its_brokers` |
//! | 5 torn cluster info, 6 time travel, 7 farewell acknowledged too early | [`threads`](super::threads); 7 also `register_then_route` |
//! | 9 wrong cluster in a farewell | `a_farewell_with_a_wrong_cluster_is_whole` |
//! | 10 single topic first | `one_topic_first_is_refused_and_leaves_nothing` |
//! | 11 topic deleted on a broker | `missing_topics_go`, `missing_topics_go_when_it_is_turned_on` |
//! | 12 delete then heartbeat | `a_deleted_topic_comes_back` |
//! | 13 delete with cluster | `topics_are_deleted` |
//! | 15 newer data under an old version | `an_equal_version_changes_nothing_that_is_there` |
//! | 16 returning broker evicts the master | `the_newer_state_keeps_the_id` |
//! | 17 broker down means no route | `a_lost_connection_takes_its_broker`, `silence_expires_a_broker` |
//! | 19 servers disagree | `the_order_of_registrations_does_not_show` |
//! | 31, 32 spelling of numeric keys | `route_bytes`, `cluster_info_bytes`; which one is chosen: the server |
//! | 33 zones | `zones_show_their_own` |
//! | 36 ids out of range | `negative_ids_are_accepted`; versions: the server |
//! | 38 IPv6, 40 special names | `names_are_kept_as_they_were_sent` |
//! | 41 cluster of every group | `cluster_info_bytes`, `plain_route_bytes` |
//! | 43 permissions after restarts | `permissions_come_back_with_the_master`, `what_is_never_rewritten` |
//! | 44 wipe and add | `permissions_are_wiped_and_added` |
//! | 45 changed permission | `a_new_permission_shows_at_once` |
//! | 14, 18, 20-30, 34, 35, 37, 39, 42, 46-52 | the server |
//!
//! Faults: C1 `a_lost_connection_takes_its_broker`; C2 `the_late_loss_of_the_old_connection_takes_nobody`; T3
//! `timeouts_are_clamped`; P4 `silence_expires_a_broker`, `heartbeats_save`.

pub mod acting;
pub mod leave;
pub mod limits;
pub mod register;
pub mod routes;
pub mod topics;

/// Makes a module of tests, one for each scenario, for a strategy: `conformance_suite!(rwlock, RwLockRegistry);`
#[macro_export]
macro_rules! conformance_suite {
    ($module:ident, $registry:ty) => {
        mod $module {
            #[allow(unused_imports)]
            use super::*;
            $crate::conformance_suite! { @tests $registry;
                acting:
                    three_brokers_take_turns, a_slave_acts_until_the_master_returns,
                    only_the_group_without_master_is_rewritten, permissions_come_back_with_the_master,
                    what_is_never_rewritten, who_is_told_of_a_farewell, who_is_told_of_a_registration;
                leave:
                    a_farewell_takes_one_member, a_heartbeat_that_finds_a_removed_broker_is_late,
                    a_group_moves_to_a_lower_index_in_one_change, slaves_without_acting_stay_slaves, several_farewells,
                    a_farewell_with_a_wrong_cluster_is_whole, unknown_farewells_change_nothing,
                    a_farewell_of_a_former_id_is_late, a_farewell_over_the_old_connection_is_late,
                    a_lost_connection_takes_its_broker, roles_switch_by_lost_connections,
                    the_late_loss_of_the_old_connection_takes_nobody, a_lost_connection_takes_all_its_brokers,
                    a_renamed_broker_leaves_no_ghost, silence_expires_a_broker, heartbeats_save, timeouts_are_clamped,
                    a_connection_is_abandoned_by_its_last_broker, a_replaced_address_is_forgotten,
                    a_broker_that_moved_to_another_cluster_stays, mappings_go_with_their_group_and_topic;
                limits:
                    groups_are_limited, members_are_limited, topics_are_limited, names_are_limited, routes_are_limited,
                    clusters_are_limited, brokers_are_limited, settings_are_limited,
                    a_full_table_leaves_known_brokers_alive, sources_have_shares, what_is_unregistered_is_forgotten;
                register:
                    register_then_route, a_slave_is_told_its_master, slaves_join_the_group, a_slave_becomes_master,
                    roles_switch, one_topic_first_is_refused_and_leaves_nothing, no_topic_table_first_is_refused,
                    the_newer_state_keeps_the_id, an_equal_version_changes_nothing_that_is_there,
                    which_slaves_bring_topics, negative_ids_are_accepted, the_last_registrant_sets_flag_and_zone,
                    the_name_inside_the_value_is_routed, names_are_kept_as_they_were_sent,
                    the_order_of_registrations_does_not_show, versions_are_compared_whole,
                    clusters_have_versions_of_their_own, one_address_may_be_in_two_groups,
                    an_unchanged_registration_is_recognised, who_left_a_group_is_not_unchanged_there,
                    filter_servers_follow_the_cluster, a_new_address_shows_in_every_topic;
                routes:
                    an_empty_registry_answers, route_bytes, plain_route_bytes, cluster_info_bytes,
                    zones_show_their_own, acting_masters_count_in_their_zone, groups_have_settings_of_their_own;
                topics:
                    topics_are_deleted, a_deleted_topic_comes_back, topics_come_and_go_in_one_change,
                    missing_topics_stay, missing_topics_go, missing_topics_go_when_it_is_turned_on,
                    topics_are_registered_by_hand,
                    permissions_are_wiped_and_added, settings_that_met_part_again, a_new_permission_shows_at_once,
                    a_static_cluster_is_listed_and_routed, lists_by_cluster, unit_flags_are_listed;
            }
        }
    };
    (@tests $registry:ty; $($area:ident: $($scenario:ident),+;)+) => {
        $($(
            #[test]
            fn $scenario() {
                $crate::testkit::conformance::$area::$scenario::<$registry>();
            }
        )+)+
    };
}

#[cfg(test)]
mod tests {
    crate::conformance_suite!(sequential, crate::testkit::Sequential);

    /// The list in the macro is complete.
    #[test]
    fn every_scenario_is_run() {
        let areas = [
            include_str!("acting.rs"),
            include_str!("leave.rs"),
            include_str!("limits.rs"),
            include_str!("register.rs"),
            include_str!("routes.rs"),
            include_str!("topics.rs"),
        ];
        let suite = include_str!("mod.rs").split_once("@tests $registry;").expect("the macro is above").1;
        let scenarios = areas.iter().flat_map(|area| area.lines()).filter_map(|line| line.strip_prefix("pub fn "));
        for scenario in scenarios.map(|line| line.split('<').next().expect("a name")) {
            assert!(suite.contains(&format!(" {scenario}")), "{scenario} is run by nobody");
        }
    }
}
