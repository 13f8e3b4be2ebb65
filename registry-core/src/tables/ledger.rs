//! Who holds how much: in all, and by source.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::TableLimits;
use crate::{Refusal, Source};

/// How much is held of what has a limit in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) groups: usize,
    pub(crate) clusters: usize,
    pub(crate) brokers: usize,
    pub(crate) topics: usize,
    pub(crate) topic_list_bytes: usize,
    pub(crate) cluster_info_bytes: usize,
    /// Estimated bytes of memory.
    pub(crate) bytes: usize,
}

impl Usage {
    pub(crate) fn of_bytes(bytes: usize) -> Self {
        Self { bytes, ..Self::default() }
    }

    pub(crate) fn plus(self, more: Self) -> Self {
        self.with(more, usize::saturating_add)
    }

    pub(crate) fn minus(self, less: Self) -> Self {
        self.with(less, usize::saturating_sub)
    }

    fn with(self, other: Self, f: fn(usize, usize) -> usize) -> Self {
        Self {
            groups: f(self.groups, other.groups),
            clusters: f(self.clusters, other.clusters),
            brokers: f(self.brokers, other.brokers),
            topics: f(self.topics, other.topics),
            topic_list_bytes: f(self.topic_list_bytes, other.topic_list_bytes),
            cluster_info_bytes: f(self.cluster_info_bytes, other.cluster_info_bytes),
            bytes: f(self.bytes, other.bytes),
        }
    }

    /// Each number beside the name and the value of its limit.
    fn beside(self, limits: &TableLimits) -> [(usize, &'static str, usize); 7] {
        [
            (self.groups, "groups_max", limits.groups_max),
            (self.clusters, "clusters_max", limits.clusters_max),
            (self.brokers, "brokers_max", limits.brokers_max),
            (self.topics, "topics_max", limits.topics_max),
            (self.topic_list_bytes, "topic_list_bytes_max", limits.topic_list_bytes_max),
            (self.cluster_info_bytes, "cluster_info_bytes_max", limits.cluster_info_bytes_max),
            (self.bytes, "registry_bytes_max", limits.registry_bytes_max),
        ]
    }
}

/// What a command would add: to what its own source holds, and to what the source of the broker's group holds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Claim {
    pub(crate) own: Usage,
    pub(crate) group: Usage,
}

impl Claim {
    pub(crate) fn plus(self, more: Self) -> Self {
        Self { own: self.own.plus(more.own), group: self.group.plus(more.group) }
    }
}

#[derive(Debug)]
struct Account {
    source: Source,
    held: Usage,
}

/// What is held, by source. An account is there while its source holds something.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    total: Usage,
    accounts: Vec<Option<Account>>,
    free: Vec<u32>,
    by_source: HashMap<Source, u32, RandomState>,
}

impl Ledger {
    /// The account of a source, to be charged at once: one that holds nothing is nobody's.
    pub(crate) fn account(&mut self, source: Source) -> u32 {
        if let Some(&account) = self.by_source.get(&source) {
            return account;
        }
        let new = Some(Account { source, held: Usage::default() });
        let account = match self.free.pop() {
            Some(account) => {
                self.accounts[account as usize] = new;
                account
            }
            None => {
                self.accounts.push(new);
                u32::try_from(self.accounts.len() - 1).expect("fewer sources than memory has bytes for")
            }
        };
        self.by_source.insert(source, account);
        account
    }

    pub(crate) fn source(&self, account: u32) -> Source {
        self.at(account).source
    }

    fn at(&self, account: u32) -> &Account {
        self.accounts[account as usize].as_ref().expect("an account is there while it holds something")
    }

    fn at_mut(&mut self, account: u32) -> &mut Account {
        self.accounts[account as usize].as_mut().expect("an account is there while it holds something")
    }

    pub(crate) fn charge(&mut self, account: u32, usage: Usage) {
        self.total = self.total.plus(usage);
        let account = self.at_mut(account);
        account.held = account.held.plus(usage);
    }

    pub(crate) fn release(&mut self, account: u32, usage: Usage) {
        self.total = self.total.minus(usage);
        let held = self.at_mut(account);
        held.held = held.held.minus(usage);
        if held.held == Usage::default() {
            let source = held.source;
            self.by_source.remove(&source);
            self.accounts[account as usize] = None;
            self.free.push(account);
        }
    }

    /// Says whether there is room for a claim. What would not grow needs no room, however full it is.
    pub(crate) fn check(
        &self,
        claim: &Claim,
        own: Source,
        of_group: Source,
        limits: &TableLimits,
    ) -> Result<(), Refusal> {
        let more = claim.own.plus(claim.group);
        for ((more, table, limit), (held, ..)) in more.beside(limits).into_iter().zip(self.total.beside(limits)) {
            if more > 0 && held.saturating_add(more) > limit {
                return Err(Refusal::TableFull { table, limit });
            }
        }
        if own == of_group {
            return self.check_share(own, more, limits);
        }
        self.check_share(own, claim.own, limits)?;
        self.check_share(of_group, claim.group, limits)
    }

    fn check_share(&self, source: Source, more: Usage, limits: &TableLimits) -> Result<(), Refusal> {
        let held = self.by_source.get(&source).map_or(Usage::default(), |&account| self.at(account).held);
        for ((more, table, limit), (held, ..)) in more.beside(limits).into_iter().zip(held.beside(limits)) {
            let share = limits.share_of(limit);
            if more > 0 && held.saturating_add(more) > share {
                return Err(Refusal::ShareFull { table, share });
            }
        }
        Ok(())
    }

    pub(crate) fn total(&self) -> Usage {
        self.total
    }

    /// Checks that everybody is charged with `held`, and nobody with anything else.
    pub(crate) fn check_against(&self, held: &HashMap<u32, Usage>) {
        let total = held.values().fold(Usage::default(), |sum, usage| sum.plus(*usage));
        assert_eq!(self.total, total, "usage of all sources");
        for (index, account) in (0..).zip(&self.accounts) {
            let Some(account) = account else { continue };
            assert_eq!(Some(&account.held), held.get(&index), "usage of {:?}", account.source);
            assert_eq!(self.by_source.get(&account.source), Some(&index), "account of {:?}", account.source);
        }
        assert_eq!(self.by_source.len(), held.len(), "number of sources");
    }
}
