//! Whether the answer to a route query can be right while brokers register.
//!
//! Routes of topics on the same brokers are equal but for the versions of brokers that change. So a body is compared with
//! one that was looked at before, without the digits of versions, and these are compared with what they may be. What no
//! known body is like is parsed; that is rare.

use std::{
    collections::{BTreeSet, HashMap},
    ops::Range,
    sync::Arc,
};

use anyhow::{Context as _, ensure};
use memchr::memmem;
use serde_json::Value;
use server::remoting::RequestCode;

use super::engine::Judge;
use crate::{
    client::Query,
    faults::Fault,
    versions::{Versions, is_older, queues_of},
};

/// What the routes are expected to show.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expected {
    /// Every route shows at least these brokers.
    pub(crate) brokers: Vec<String>,
    /// The body of each answer stays what it was, but for versions.
    pub(crate) is_fixed: bool,
    /// All topics are of brokers of ours, which have as many queues to read as to write.
    pub(crate) is_ours: bool,
    /// The server answers everything with the same body, which is no route.
    pub(crate) is_canned: bool,
    /// Brokers that register again and again.
    pub(crate) versions: Option<Arc<Versions>>,
}

/// The versions of this many brokers are followed; those of more are only taken out of the comparison.
const FOLLOWED_MAX: usize = 8;
/// No body is known yet.
const NONE: u32 = u32::MAX;

/// Queues of the versions of [`FOLLOWED_MAX`] brokers.
type Floors = [u16; FOLLOWED_MAX];

/// Judges the answers of one thread.
pub(crate) struct Routes<'q> {
    queries: &'q [Query],
    expected: Expected,
    /// `"brokerName":"NAME"` of each broker that changes.
    finders: Vec<memmem::Finder<'static>>,
    templates: Vec<Template>,
    by_bytes: HashMap<Box<[u8]>, u32>,
    /// The last body of each question, as an index of `templates`.
    known: Vec<u32>,
    /// The newest versions that were seen in the answers to each question.
    seen: Vec<Floors>,
    /// How many brokers are followed.
    followed: usize,
}

struct Template {
    /// The digits of versions are zeros.
    bytes: Box<[u8]>,
    holes: Box<[Hole]>,
}

/// Digits of a version in a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hole {
    at: usize,
    /// The place of the broker in the versions.
    place: usize,
}

const HOLE_BYTES: usize = 4;

impl<'q> Routes<'q> {
    pub(crate) fn new(queries: &'q [Query], expected: Expected) -> Self {
        let names = expected.versions.iter().flat_map(|versions| versions.names());
        let finder = |name: &str| memmem::Finder::new(&format!("\"brokerName\":\"{name}\"")).into_owned();
        let finders: Vec<_> = names.map(finder).collect();
        let followed = finders.len().min(FOLLOWED_MAX);
        let seen = expected.versions.as_ref().map_or_else(Vec::new, |versions| {
            vec![
                std::array::from_fn(|place| if place < followed { queues_now(versions, place) } else { 0 });
                queries.len()
            ]
        });
        Self {
            known: vec![NONE; queries.len()],
            queries,
            expected,
            finders,
            templates: Vec::new(),
            by_bytes: HashMap::new(),
            seen,
            followed,
        }
    }

    /// Compares the versions of a body that is like its template.
    fn check_versions(
        &mut self,
        question: u32,
        template: u32,
        floors: &Floors,
        body: &[u8],
    ) -> Result<(), (Fault, String)> {
        let query = &self.queries[question as usize];
        let mut last = None;
        for &Hole { at, place } in &self.templates[template as usize].holes {
            let Some(queues) = digits_at(body, at) else {
                return Err((Fault::Body, format!("no version in answer to {:?}", query.fields)));
            };
            if last.replace((place, queues)).is_some_and(|last| last.0 == place && last.1 != queues) {
                return Err((Fault::Body, format!("torn queues in answer to {:?}", query.fields)));
            }
            let (Some(&floor), Some(seen)) = (floors.get(place), self.seen[question as usize].get_mut(place)) else {
                continue;
            };
            if is_older(queues.into(), floor.into()) {
                let words = format!("{queues} queues after {floor} in answer to {:?}", query.fields);
                return Err((Fault::Stale, words));
            }
            if !is_older(queues.into(), (*seen).into()) {
                *seen = queues;
            }
        }
        Ok(())
    }

    /// Looks at a body that is not like the last one.
    fn learn(&mut self, question: u32, body: &[u8]) -> anyhow::Result<u32> {
        let query = &self.queries[question as usize];
        let known = &mut self.known[question as usize];
        ensure!(
            *known == NONE || !self.expected.is_fixed,
            "the answer to {:?} {:?} has changed",
            query.code,
            query.fields
        );
        let mut bytes = Box::<[u8]>::from(body);
        let mut holes = Vec::new();
        if query.code == RequestCode::GetRouteInfoByTopic && !self.expected.is_canned {
            let route = || format!("the route of {:?}", query.fields);
            check_route(body, &self.expected).with_context(route)?;
            holes = holes_of(body, &self.finders);
            holes.iter().for_each(|hole| bytes[hole.at..][..HOLE_BYTES].fill(b'0'));
        }
        let next = u32::try_from(self.templates.len())?;
        let template = *self.by_bytes.entry(bytes).or_insert_with_key(|bytes| {
            self.templates.push(Template { bytes: bytes.clone(), holes: holes.into() });
            next
        });
        *known = template;
        Ok(template)
    }
}

impl Judge for Routes<'_> {
    type Mark = Floors;

    fn mark(&mut self, question: u32) -> Floors {
        let mut floors = Floors::default();
        let Some(versions) = &self.expected.versions else { return floors };
        let seen = &self.seen[question as usize];
        for (place, (floor, &seen)) in floors.iter_mut().zip(seen).enumerate().take(self.followed) {
            let acknowledged = queues_now(versions, place);
            *floor = if is_older(acknowledged.into(), seen.into()) { seen } else { acknowledged };
        }
        floors
    }

    fn judge(&mut self, question: u32, floors: Floors, code: i32, body: &[u8]) -> Result<(), (Fault, String)> {
        if code != 0 {
            let query = &self.queries[question as usize];
            return Err((Fault::Code, format!("code {code} in answer to {:?} {:?}", query.code, query.fields)));
        }
        let mut known = self.known[question as usize];
        if !self.templates.get(known as usize).is_some_and(|template| template.is_like(body)) {
            known = self.learn(question, body).map_err(|error| (Fault::Body, format!("{error:#}")))?;
        }
        self.check_versions(question, known, &floors, body)
    }
}

impl Template {
    fn is_like(&self, body: &[u8]) -> bool {
        if body.len() != self.bytes.len() {
            return false;
        }
        let mut start = 0;
        for hole in &self.holes {
            if body[start..hole.at] != self.bytes[start..hole.at] {
                return false;
            }
            start = hole.at + HOLE_BYTES;
        }
        body[start..] == self.bytes[start..]
    }
}

/// Cannot be more than four digits.
fn queues_now(versions: &Versions, place: usize) -> u16 {
    queues_of(versions.acknowledged(place)) as u16
}

fn digits_at(body: &[u8], at: usize) -> Option<u16> {
    let digits = body.get(at..at + HOLE_BYTES)?;
    digits.iter().try_fold(0, |number, digit| digit.is_ascii_digit().then(|| number * 10 + u16::from(digit - b'0')))
}

/// The queue numbers of brokers that change, in the order of the bytes.
fn holes_of(body: &[u8], finders: &[memmem::Finder<'_>]) -> Vec<Hole> {
    const KEY: &[u8] = b"QueueNums\":";
    let holes = memmem::find_iter(body, KEY).filter_map(|key| {
        let at = key + KEY.len();
        let entry = entry_around(body, key)?;
        let place = finders.iter().position(|finder| finder.find(&body[entry.clone()]).is_some())?;
        digits_at(body, at).map(|_| Hole { at, place })
    });
    holes.collect()
}

/// The object around a place; an entry of `queueDatas` has no others inside.
fn entry_around(body: &[u8], at: usize) -> Option<Range<usize>> {
    Some(memchr::memrchr(b'{', &body[..at])?..at + memchr::memchr(b'}', &body[at..])?)
}

/// A route has queues of its brokers and of no others, each once, and shows those that it must.
fn check_route(body: &[u8], expected: &Expected) -> anyhow::Result<()> {
    let route: Value = serde_json::from_slice(body).context("no JSON")?;
    let names_in = |list: &str| -> anyhow::Result<BTreeSet<&str>> {
        let entries = route[list].as_array().with_context(|| format!("no {list}"))?;
        let names = entries.iter().map(|entry| entry["brokerName"].as_str().context("an entry without broker"));
        let names = names.collect::<anyhow::Result<BTreeSet<_>>>()?;
        ensure!(names.len() == entries.len(), "a broker twice in {list}");
        Ok(names)
    };
    let (brokers, queues) = (names_in("brokerDatas")?, names_in("queueDatas")?);
    let are_equal = if expected.is_ours { brokers == queues } else { brokers.is_subset(&queues) };
    ensure!(are_equal, "brokers {brokers:?} and queues of {queues:?}");
    for entry in route["queueDatas"].as_array().into_iter().flatten() {
        let numbers = ["readQueueNums", "writeQueueNums"].map(|key| entry[key].as_u64());
        ensure!(numbers.iter().all(Option::is_some), "no queues: {entry}");
        ensure!(!expected.is_ours || numbers[0] == numbers[1], "torn queues: {entry}");
    }
    if let Some(missing) = expected.brokers.iter().find(|name| !brokers.contains(&***name)) {
        anyhow::bail!("{missing} is missing");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(brokers: &[(&str, u32)]) -> Vec<u8> {
        let list = |entry: fn(&str, u32) -> String| {
            brokers.iter().map(|&(name, queues)| entry(name, queues)).collect::<Vec<_>>().join(",")
        };
        let datas = list(|name, _| format!(r#"{{"brokerAddrs":{{"0":"10.0.0.1:1"}},"brokerName":"{name}"}}"#));
        let queues = list(|name, queues| {
            format!(r#"{{"brokerName":"{name}","perm":6,"readQueueNums":{queues},"writeQueueNums":{queues}}}"#)
        });
        format!(r#"{{"brokerDatas":[{datas}],"queueDatas":[{queues}]}}"#).into()
    }

    fn expected(names: &[&str], versions: Option<&Arc<Versions>>) -> Expected {
        let brokers = names.iter().map(|name| name.to_string()).collect();
        Expected { brokers, is_ours: true, is_fixed: true, versions: versions.cloned(), ..Expected::default() }
    }

    fn fault_of(result: Result<(), (Fault, String)>) -> Option<Fault> {
        result.err().map(|(fault, _)| fault)
    }

    #[test]
    fn a_fixed_route_stays_what_it_was() {
        let queries = [Query::route("a"), Query::route("b")];
        let mut routes = Routes::new(&queries, expected(&["x"], None));
        let mut judge = |question, code, body: &[u8]| {
            let mark = routes.mark(question);
            fault_of(routes.judge(question, mark, code, body))
        };
        let (one, both) = (route(&[("x", 8)]), route(&[("x", 8), ("y", 8)]));
        assert_eq!(judge(0, 0, &one), None);
        assert_eq!(judge(0, 0, &one), None);
        assert_eq!(judge(1, 0, &both), None);
        assert_eq!(judge(0, 0, &both), Some(Fault::Body));
        assert_eq!(judge(0, 17, &one), Some(Fault::Code));
        assert_eq!(judge(0, 0, b"{}"), Some(Fault::Body));
    }

    #[test]
    fn what_is_no_route_is_told() {
        let whole = String::from_utf8(route(&[("x", 8), ("y", 8)])).unwrap();
        let ours = expected(&["x"], None);
        assert!(check_route(whole.as_bytes(), &ours).is_ok());
        for (from, to, words) in [
            ("}]}", "}]", "JSON"),
            (r#""brokerName":"y","perm""#, r#""brokerName":"x","perm""#, "twice"),
            (r#""brokerName":"y","perm""#, r#""brokerName":"z","perm""#, "queues of"),
            (r#""readQueueNums":8"#, r#""readQueueNums":9"#, "torn"),
            (r#""readQueueNums":8"#, r#""readQueueNums":"8""#, "no queues"),
            ("queueDatas", "queueData", "no queueDatas"),
            (r#""x""#, r#""w""#, "x is missing"),
        ] {
            let error = check_route(whole.replace(from, to).as_bytes(), &ours).unwrap_err();
            assert!(format!("{error:#}").contains(words), "{from} {to}: {error:#}");
        }
        let theirs = Expected::default();
        assert!(check_route(whole.replace("readQueueNums\":8", "readQueueNums\":9").as_bytes(), &theirs).is_ok());
    }

    #[test]
    fn versions_never_go_backwards() {
        let versions = Arc::new(Versions::new(["y".into()], 10));
        let queries = [Query::route("a"), Query::route("b")];
        let mut routes = Routes::new(&queries, expected(&["x", "y"], Some(&versions)));
        let at = |version| route(&[("x", 8), ("y", queues_of(version))]);
        let before = routes.mark(0);
        assert_eq!(fault_of(routes.judge(0, before, 0, &at(10))), None);
        assert_eq!(fault_of(routes.judge(0, before, 0, &at(9))), Some(Fault::Stale), "older than acknowledged");
        assert_eq!(fault_of(routes.judge(0, before, 0, &at(12))), None, "not acknowledged yet");
        let after = routes.mark(0);
        assert_eq!(fault_of(routes.judge(0, after, 0, &at(11))), Some(Fault::Stale), "older than seen");
        assert_eq!(fault_of(routes.judge(0, before, 0, &at(11))), None, "asked for before it was seen");
        versions.acknowledge(0, 20);
        let last = routes.mark(1);
        assert_eq!(fault_of(routes.judge(1, last, 0, &at(19))), Some(Fault::Stale));
        assert_eq!(fault_of(routes.judge(1, last, 0, &at(20))), None);
        let torn = String::from_utf8(at(20)).unwrap().replace("readQueueNums\":1020", "readQueueNums\":1021");
        assert_eq!(fault_of(routes.judge(1, last, 0, torn.as_bytes())), Some(Fault::Body));
        assert_eq!(routes.templates.len(), 1, "bodies differ by their versions only");
    }

    #[test]
    fn a_canned_answer_stays_what_it_was() {
        let queries = [Query::route("a")];
        let canned = Expected { is_canned: true, is_fixed: true, ..Expected::default() };
        let mut routes = Routes::new(&queries, canned);
        assert_eq!(fault_of(routes.judge(0, Floors::default(), 0, b"xxx")), None);
        assert_eq!(fault_of(routes.judge(0, Floors::default(), 0, b"xxy")), Some(Fault::Body));
    }
}
