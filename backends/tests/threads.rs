//! Real threads on every strategy, and on those that are broken on purpose.
#![cfg(not(loom))]

use backends::baseline::DirtyRegistry;
use registry_core::{
    Registry,
    testkit::{
        broken::{AfterTheAnswer, TopicByTopic, TwoCopies},
        lists,
        threads::{self, Findings},
    },
};

/// Publications of one run: about half a second of an unoptimised build.
const VERSIONS: u64 = 3_000;

fn readers_see_one_state_the_newest_and_never_an_older_one<R: Registry>() {
    let findings = threads::storm::<R>(VERSIONS, 2, 1);
    assert!(findings.reads >= 500, "hardly anything was read: {findings:?}");
    assert_eq!(findings, findings.clean());
}

fn an_answered_heartbeat_saves<R: Registry>() {
    let beats = threads::heartbeat_storm::<R>(250, 2);
    assert!(beats.beaten > 0 && beats.expired > 0, "heartbeats and expiries did not meet: {beats:?}");
    assert_eq!(beats.betrayed, 0, "{beats:?}");
}

fn a_kept_list_is_never_an_older_one<R: Registry>() {
    let findings = lists::storm::<R>(5_000, 2);
    assert!(findings.kept > 0, "no list was kept: {findings:?}");
    assert_eq!((findings.torn, findings.stale), (0, 0), "{findings:?}");
}

macro_rules! storms {
    ($($module:ident: $registry:path;)*) => {
        $(mod $module {
            #[test]
            fn readers_see_one_state() {
                super::readers_see_one_state_the_newest_and_never_an_older_one::<$registry>();
            }

            #[test]
            fn an_answered_heartbeat_saves() {
                super::an_answered_heartbeat_saves::<$registry>();
            }

            #[test]
            fn a_kept_list_is_never_an_older_one() {
                super::a_kept_list_is_never_an_older_one::<$registry>();
            }

            #[test]
            fn lookups_go_on_while_the_publisher_waits_for_a_scan() {
                assert_eq!(super::lists::lookup_during_a_scan::<$registry>(), Some(true));
            }
        })*
    };
}
backends::strategies!(storms);

/// Runs until the strategy was found out, or it is clear that it will not be.
fn found_out<R: Registry>(is_found: impl Fn(&Findings) -> bool) {
    let mut all = Vec::new();
    for _ in 0..20 {
        let findings = threads::storm::<R>(VERSIONS, 2, 50);
        if is_found(&findings) {
            return;
        }
        all.push(findings);
    }
    panic!("{} was not found out: {all:?}", R::NAME);
}

mod broken {
    use super::*;

    #[test]
    fn topics_published_one_by_one_are_found_out() {
        found_out::<TopicByTopic>(|findings| findings.torn > 0);
    }

    #[test]
    fn concurrent_maps_without_a_protocol_are_found_out() {
        found_out::<DirtyRegistry>(|findings| findings.torn > 0);
    }

    #[test]
    fn a_publication_after_the_answer_is_found_out() {
        found_out::<AfterTheAnswer>(|findings| findings.stale > 0);
    }

    #[test]
    fn two_copies_are_found_out() {
        found_out::<TwoCopies>(|findings| findings.time_travel > 0 && findings.torn == 0);
    }
}
