//! Routes of one state, kept by their shape.

use super::{
    RouteQuery,
    route::{route, write_route},
};
use crate::{KeyStyle, Root, Slot, Stale, View};

/// How many routes are kept. A broker gives all its topics a handful of different settings, so most topics of a cluster
/// share few shapes; all routes together stay in the near caches of a processor.
const ROUTES_KEPT: usize = 64;
/// Longer routes are not kept. One broker takes some 220 bytes.
const ROUTE_BYTES_MAX: usize = 16 << 10;

/// Answers route queries as [`route`] does, from what it has written before.
///
/// A route does not name its topic: in one state, topics with the same settings on the same brokers have the same route. It
/// is written once, kept with the version of the state that it belongs to, and copied from then on. In another state it is
/// written anew, so what is kept can never be seen late. In the same state a kept route never gives way to another, so that
/// clusters with more shapes than are kept pay for little more than the comparison.
///
/// Belongs to one reader: states of different registries have the same versions. Holds no state alive. Takes up to 64
/// routes of 16 KiB; of 8 brokers they have 1.7 kB.
///
/// Not kept are routes with static-topic mappings, with an order configuration, or of queries that want a zone or an acting
/// master.
#[derive(Clone, Debug)]
pub struct RouteCache {
    kept: Box<[Kept]>,
}

/// A route, and all that it depends on.
#[derive(Clone, Debug)]
struct Kept {
    /// Version of the root; none has the one of a place that is free.
    version: u64,
    style: KeyStyle,
    slots: Vec<Slot>,
    body: Vec<u8>,
}

impl Default for RouteCache {
    fn default() -> Self {
        Self::new()
    }
}

impl RouteCache {
    /// A cache that holds nothing.
    pub fn new() -> Self {
        let free = Kept { version: u64::MAX, style: KeyStyle::Quoted, slots: Vec::new(), body: Vec::new() };
        Self { kept: vec![free; ROUTES_KEPT].into() }
    }

    /// As [`route`]. Cost for a kept route: one lookup of the topic and one copy.
    ///
    /// # Errors
    /// [`Stale`], for the strategy.
    pub fn route(&mut self, view: &impl View, query: &RouteQuery<'_>, out: &mut Vec<u8>) -> Result<bool, Stale> {
        if query.acting_master || query.zone.is_some() || query.order_conf.is_some() {
            return route(view, query, out);
        }
        let start = out.len();
        let is_found = view.with_topic(query.topic, |entry| match entry {
            Some(entry) if entry.mappings.is_some() => write_route(view.root(), entry, query, out),
            Some(entry) => self
                .write(view.root(), &entry.slots, query.style, out, |out| write_route(view.root(), entry, query, out)),
            None => false,
        });
        if is_found.is_err() {
            out.truncate(start);
        }
        is_found
    }

    fn write(
        &mut self,
        root: &Root,
        slots: &[Slot],
        style: KeyStyle,
        out: &mut Vec<u8>,
        write: impl FnOnce(&mut Vec<u8>) -> bool,
    ) -> bool {
        let Some(kept) = self.kept.get_mut(place(slots)) else { return write(out) };
        let is_current = kept.version == root.version();
        if is_current && kept.style == style && kept.slots == slots {
            out.extend_from_slice(&kept.body);
            return true;
        }
        let start = out.len();
        let is_found = write(out);
        let body = &out[start..];
        if is_found && !is_current && body.len() <= ROUTE_BYTES_MAX {
            kept.version = root.version();
            kept.style = style;
            kept.slots.clear();
            kept.slots.extend_from_slice(slots);
            kept.body.clear();
            kept.body.extend_from_slice(body);
        }
        is_found
    }
}

/// Where a route with these slots is kept.
fn place(slots: &[Slot]) -> usize {
    // Fibonacci hashing: the upper bits of the product depend on all bits.
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = slots.iter().fold(0, |mixed: u64, slot| {
        (mixed.rotate_left(5) ^ (u64::from(slot.group) << 32 | u64::from(slot.setting))).wrapping_mul(FACTOR)
    });
    (mixed >> 32) as usize % ROUTES_KEPT
}
