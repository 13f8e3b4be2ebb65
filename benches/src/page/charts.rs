//! Which charts the page has, and what each does not show.

use super::{
    axis::{Axis, Scale, Values},
    chart::Mark,
    markup::{Escaped, put},
    names,
    section::{Section, Wanted},
    series::{At, Series, along, beside, borrowed, sweeps},
    subject::{self, BACKENDS, DEFAULT_BACKEND, FLOOR},
    table::Table,
    unit::{Unit, count},
};
use crate::results::{Measure, Results};

const PERCENTILE: &str = "percentile";
/// The conditions of the rates that have goals.
const CONNECTIONS: (&str, f64) = ("connections", 16.0);
const TOPICS: (&str, f64) = ("topics", 1e3);
/// Of a measure with many conditions, so many charts are drawn; the numbers of the others are in the file of results.
const CHARTS_MAX: usize = 3;

/// All sections in their order.
pub(crate) fn sections(results: &Results) -> Vec<Section> {
    vec![lookups(results), storms(results), in_process(results), growth(results), peers(results), instructions(results)]
}

fn log_us(label: &'static str) -> Axis {
    Axis::measured(label, Scale::Log, Unit::Us)
}

fn linear(label: &'static str, measure: Measure) -> Axis {
    Axis::measured(label, Scale::Linear, Unit::of(measure))
}

/// Which programs a chart compares.
fn only(series: Vec<Series>, keep: impl Fn(&str) -> bool) -> Vec<Series> {
    series.into_iter().filter(|series| keep(&series.subject)).collect()
}

fn ours(subject: &str) -> bool {
    !subject::is_peer(subject)
}

fn here(results: &Results) -> String {
    let cores = match results.machine.cores {
        0 => "the same processors".to_owned(),
        1 => "the same processor".to_owned(),
        cores => format!("the same {cores} processors"),
    };
    format!("The load generator runs on {cores}")
}

fn lookups(results: &Results) -> Section {
    let mut section = Section::new(
        "lookups",
        "Route queries over TCP",
        "16 connections ask for the routes of 1,000 topics on 8 brokers. The floor is a program that cuts frames and \
         sends a canned answer of the same length back: what is left to do once nothing is looked up.",
    );
    let in_flight =
        |measure| [1.0, 4.0].map(|in_flight| (measure, vec![CONNECTIONS, TOPICS, ("in_flight", in_flight)]));
    let groups = || Axis::groups(vec!["1 in flight".to_owned(), "4 in flight".to_owned()]);
    let mut bars = |measure: Measure, id: &str, title: &str, label, caption: String| {
        let wanted = Wanted {
            id: id.to_owned(),
            title: title.to_owned(),
            part: "queries",
            x: groups(),
            y: linear(label, measure),
            mark: Mark::Bar,
            caption,
        };
        section.add(wanted, only(beside(results, &in_flight(measure)), ours));
    };
    bars(
        Measure::QueryRate,
        "rate",
        "Route queries a second, closed loop",
        "queries a second",
        format!(
            "Higher is better. Bars are medians of the rounds, whiskers the quartiles. {}, so this is the rate of both \
             together: with more processors the server alone would do more.",
            here(results)
        ),
    );
    bars(
        Measure::QueryCpu,
        "cpu",
        "Processor time of the server for a query",
        "time a query",
        "Lower is better. User and system time of the whole process; most of it is the kernel's, for reads and writes of \
         sockets. It does not show waiting."
            .to_owned(),
    );
    for in_flight in [1.0, 4.0] {
        let at = [CONNECTIONS, TOPICS, ("in_flight", in_flight)];
        let series = along(results, Measure::QueryLatency, &at, PERCENTILE);
        let wanted = Wanted {
            id: format!("latency-{in_flight}"),
            title: format!("Latency, closed loop, {in_flight} in flight"),
            part: "queries",
            x: Axis::percentiles(),
            y: log_us("latency"),
            mark: Mark::Line,
            caption: format!(
                "Lower is better. A closed loop flatters the slow: while a server stalls it is asked nothing. {}, and far \
                 to the right it is the scheduler that is seen.",
                here(results)
            ),
        };
        section.add(wanted, only(series, ours));
    }
    for at in first(sweeps(results, Measure::OpenLatency, &[], PERCENTILE), CHARTS_MAX) {
        let rate = rate_of(at.as_ref());
        let wanted = Wanted {
            id: format!("latency-open{}", suffix(at.as_ref())),
            title: format!("Latency, open loop{rate}"),
            part: "queries",
            x: Axis::percentiles(),
            y: log_us("latency"),
            mark: Mark::Line,
            caption:
                "Lower is better. Time counts from when a query was due, so a stall is paid by all that waited for it. \
                      The rate is far below what the servers can do: it shows waking up, not load."
                    .to_owned(),
        };
        section.add(wanted, swept(results, Measure::OpenLatency, at.as_ref(), PERCENTILE));
    }
    section
}

/// The conditions of the first charts; `None` alone if there is no sample, and the chart is named as not measured.
fn first(sweeps: Vec<At>, charts: usize) -> Vec<Option<At>> {
    if sweeps.is_empty() { vec![None] } else { sweeps.into_iter().take(charts).map(Some).collect() }
}

/// The series under these conditions.
fn swept(results: &Results, measure: Measure, at: Option<&At>, key: &str) -> Vec<Series> {
    at.map(|at| along(results, measure, &borrowed(at), key)).unwrap_or_default()
}

fn rate_of(at: Option<&At>) -> String {
    let rate = at.into_iter().flatten().find(|(key, _)| key == "per_second");
    rate.map(|&(_, rate)| format!(" of {} queries/s", count(rate))).unwrap_or_default()
}

/// Makes an id unique by the conditions.
fn suffix(at: Option<&At>) -> String {
    at.into_iter().flatten().map(|(key, value)| format!("-{key}-{value}")).collect()
}

fn storms(results: &Results) -> Section {
    let mut section = Section::new(
        "storms",
        "While brokers register",
        "Two brokers register 10,000 topics each, all of them changed, every 50 ms, whether or not the server keeps up: a \
         storm that waited for answers would reward a slow writer. An avalanche is 300 brokers with 1,000 topics each that \
         register in the same second.",
    );
    let wanted = Wanted {
        id: "storm-rate".to_owned(),
        title: "Route queries a second, with and without the storm".to_owned(),
        part: "storm",
        x: Axis::groups(vec!["quiet".to_owned(), "storm".to_owned()]),
        y: linear("queries a second", Measure::StormRate),
        mark: Mark::Bar,
        caption: format!(
            "16 connections, 4 in flight. {}, and so do the brokers that register: the rate falls by what they take, too.",
            here(results)
        ),
    };
    let quiet = (Measure::QueryRate, vec![CONNECTIONS, TOPICS, ("in_flight", 4.0)]);
    let series = beside(results, &[quiet, (Measure::StormRate, vec![("in_flight", 4.0)])]);
    let in_storm = |one: &Series| one.points.iter().any(|point| point.x == 1.0);
    let is_measured = series.iter().any(in_storm);
    let keep = |subject: &str| ours(subject) && is_measured;
    section.add(wanted, only(series, keep));
    let curves = [
        (Measure::StormLatency, "storm-latency", "Latency of route queries under the storm", "storm"),
        (Measure::StormRegistration, "storm-registration", "Time of a registration under the storm", "storm"),
        (Measure::AvalancheLatency, "avalanche", "Latency of route queries during the avalanche", "avalanche"),
    ];
    for (measure, id, title, part) in curves {
        let wanted = Wanted {
            id: id.to_owned(),
            title: title.to_owned(),
            part,
            x: Axis::percentiles(),
            y: Axis::measured("latency", Scale::Log, Unit::of(measure)),
            mark: Mark::Line,
            caption: "Lower is better. Time counts from when it was due. On a machine with few processors the tail is made \
                      of turns that the scheduler gives to others as much as of locks; the same without sockets is in the \
                      next section."
                .to_owned(),
        };
        section.add(wanted, along(results, measure, &[], PERCENTILE));
    }
    let wanted = Wanted {
        id: "registration-cpu".to_owned(),
        title: "Processor time of a registration of 10,000 topics".to_owned(),
        part: "registration",
        x: Axis::groups(vec!["unchanged".to_owned(), "all changed".to_owned()]),
        y: Axis::measured("time", Scale::Log, Unit::Ms),
        mark: Mark::Dot,
        caption: "Lower is better. All threads of the server together: it does not show how long the broker waits, or \
                  whether lookups wait meanwhile."
            .to_owned(),
    };
    let changed = [0.0, 1.0].map(|changed| (Measure::RegistrationCpu, vec![("changed", changed)]));
    section.add(wanted, beside(results, &changed));
    section
}

/// Values of a condition, ascending.
fn values(results: &Results, measure: Measure, key: &str) -> Vec<f64> {
    let mut values: Vec<f64> = results.find(measure, &[]).filter_map(|sample| sample.at.get(key).copied()).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

fn in_process(results: &Results) -> Section {
    let mut section = Section::new(
        "in-process",
        "The strategies in one process",
        "No sockets and no parsing: what readers and the writer do to each other. The floor is a map that never changes; \
         \u{201c}dirty\u{201d} are concurrent maps without a protocol, which may not serve, because some of its answers mix \
         two states.",
    );
    threads(results, &mut section);
    tails(results, &mut section);
    stalls(results, &mut section);
    changes(results, &mut section);
    registry_memory(results, &mut section);
    torn(results, &mut section);
    section
}

fn threads(results: &Results, section: &mut Section) {
    let measures = [
        (
            Measure::ReadRateCpu,
            "reads-cpu",
            "Lookups a second of processor time",
            2,
            "Time of the reading threads, so that other programs do not count as contention. It does not show more threads \
          than this machine has processors: what bounces between two caches bounces worse between many.",
        ),
        (
            Measure::ReadRate,
            "reads-wall",
            "Lookups a second of wall time",
            1,
            "Wall time: with more threads than processors it shows the scheduler rather than the lock.",
        ),
    ];
    for (measure, id, title, charts, caption) in measures {
        for at in first(sweeps(results, measure, &[], "threads"), charts) {
            let wanted = Wanted {
                id: format!("{id}{}", suffix(at.as_ref())),
                title: format!("{title}{}", mix_and_topics(at.as_ref())),
                part: "matrix",
                x: Axis::counted("reading threads", Scale::Linear),
                y: linear("millions a second", measure),
                mark: Mark::Line,
                caption: format!("Higher is better. {caption}"),
            };
            section.add(wanted, swept(results, measure, at.as_ref(), "threads"));
        }
    }
}

fn mix_and_topics(at: Option<&At>) -> String {
    let of = |name: &str| at.into_iter().flatten().find(|(key, _)| key == name).map(|&(_, value)| value);
    let mut out = String::new();
    if let Some(mix) = of("mix") {
        put!(out, ", {}", names::mix(mix));
    }
    if let Some(topics) = of("topics") {
        put!(out, ", {} topics", count(topics));
    }
    out
}

fn tails(results: &Results, section: &mut Section) {
    let measure = Measure::ReadLatency;
    let mixes = values(results, measure, "mix");
    let most_topics = values(results, measure, "topics").pop();
    for percentile in [99.0, 99.9] {
        let at = |mix: f64| {
            let topics = most_topics.map(|topics| ("topics", topics));
            [("mix", mix), (PERCENTILE, percentile)].into_iter().chain(topics).collect()
        };
        let groups: Vec<_> = mixes.iter().map(|&mix| (measure, at(mix))).collect();
        let topics = most_topics.map(|topics| format!(", {} topics", count(topics))).unwrap_or_default();
        let wanted = Wanted {
            id: format!("tails-{percentile}"),
            title: format!("p{percentile} of a lookup by load{topics}"),
            part: "matrix",
            x: Axis::groups(mixes.iter().map(|&mix| names::mix(mix)).collect()),
            y: log_us("latency"),
            mark: Mark::Dot,
            caption:
                "Lower is better. Open loop, pinned threads; whiskers are the quartiles of the rounds. A lookup that \
                      waits for the writer stands far above the floor; what the floor shows is the machine."
                    .to_owned(),
        };
        section.add(wanted, beside(results, &groups));
    }
    let at = most_topics.map(|topics| ("topics", topics));
    let at: Vec<_> = at.into_iter().collect();
    let mut storms = sweeps(results, measure, &at, PERCENTILE);
    storms.retain(|at| !at.contains(&("mix".to_owned(), names::STEADY)));
    for at in first(storms, CHARTS_MAX) {
        let wanted = Wanted {
            id: format!("read-latency{}", suffix(at.as_ref())),
            title: format!("Latency of a lookup{}", mix_and_topics(at.as_ref())),
            part: "matrix",
            x: Axis::percentiles(),
            y: log_us("latency"),
            mark: Mark::Line,
            caption: "Lower is better. Time counts from when a lookup was due. One reader and one writer, each on a processor \
                      of its own; it does not show many readers, nor a writer that has to share its processor."
                .to_owned(),
        };
        section.add(wanted, swept(results, measure, at.as_ref(), PERCENTILE));
    }
}

fn stalls(results: &Results, section: &mut Section) {
    for at in first(sweeps(results, Measure::WriterStall, &[], "ms"), 2) {
        let wanted = Wanted {
            id: format!("stall{}", suffix(at.as_ref())),
            title: format!("Longest change in each slice of time{}", mix_and_topics(at.as_ref())),
            part: "matrix",
            x: Axis::measured("time since the start of the round", Scale::Linear, Unit::Ms),
            y: log_us("longest change"),
            mark: Mark::Line,
            caption: "Lower is better. What the writer waits for: readers of an old copy, locks, the allocator, and, where \
                      there are more threads than processors, a reader that does not run. Band: quartiles of the rounds."
                .to_owned(),
        };
        section.add(wanted, swept(results, Measure::WriterStall, at.as_ref(), "ms"));
    }
    let wanted = Wanted {
        id: "visibility".to_owned(),
        title: "From the publication of a change until another thread reads it".to_owned(),
        part: "matrix",
        x: Axis::percentiles(),
        y: log_us("delay"),
        mark: Mark::Line,
        caption:
            "Lower is better. It counts from the begin of the publication. It does not show the way to another socket \
                  of a larger machine."
                .to_owned(),
    };
    section.add(wanted, along(results, Measure::Visibility, &[], PERCENTILE));
}

fn changes(results: &Results, section: &mut Section) {
    let measure = Measure::ChangeTime;
    let changes = values(results, measure, "change");
    let most_topics = values(results, measure, "topics").pop();
    let readers = values(results, measure, "readers");
    let (quiet, busy) =
        (readers.first().copied(), readers.last().copied().filter(|&busy| readers.first() != Some(&busy)));
    let charts = [
        (quiet, 50.0, "Half of all changes take less, nobody reads"),
        (busy, 99.0, "p99 of a change while readers read"),
    ];
    for (readers, percentile, title) in charts {
        let at = |change: f64| {
            let more = [readers.map(|readers| ("readers", readers)), most_topics.map(|topics| ("topics", topics))];
            [("change", change), (PERCENTILE, percentile)].into_iter().chain(more.into_iter().flatten()).collect()
        };
        // Without a run with readers there is nothing that this chart could show.
        let wanted_changes: &[f64] = if readers.is_some() { &changes } else { &[] };
        let groups: Vec<_> = wanted_changes.iter().map(|&change| (measure, at(change))).collect();
        let topics = most_topics.map(|topics| format!(", {} topics", count(topics))).unwrap_or_default();
        let wanted = Wanted {
            id: format!("changes-{percentile}"),
            title: format!("{title}{topics}"),
            part: "matrix",
            x: Axis::groups(changes.iter().map(|&change| names::change(change)).collect()),
            y: log_us("time of the writer"),
            mark: Mark::Dot,
            caption:
                "Lower is better. From the command to the end of its publication, on the writer's thread. It does not \
                      show the way of the registration through sockets and the parser, which is longer."
                    .to_owned(),
        };
        section.add(wanted, beside(results, &groups));
    }
}

fn registry_memory(results: &Results, section: &mut Section) {
    let measure = Measure::RegistryMemory;
    let rewrites = values(results, measure, "rewrites");
    let most_topics = values(results, measure, "topics").pop();
    let at = |&rewrites: &f64| {
        let topics = most_topics.map(|topics| ("topics", topics));
        (measure, [("rewrites", rewrites)].into_iter().chain(topics).collect())
    };
    let groups: Vec<_> = rewrites.iter().map(at).collect();
    let name = |&rewrites: &f64| match rewrites {
        0.0 => "loaded".to_owned(),
        rewrites => format!("rewritten {} times", count(rewrites)),
    };
    let topics = most_topics.map(|topics| format!(", {} topics", count(topics))).unwrap_or_default();
    let wanted = Wanted {
        id: "registry-memory".to_owned(),
        title: format!("Resident memory of the registry alone{topics}"),
        part: "matrix",
        x: Axis::groups(rewrites.iter().map(name).collect()),
        y: linear("memory", measure),
        mark: Mark::Bar,
        caption: "Lower is better. A process of its own with nothing else in it; what the allocator keeps counts. It does not \
                  show buffers of connections and of registrations that are being parsed."
            .to_owned(),
    };
    section.add(wanted, beside(results, &groups));
}

/// Answers that no state gives: a number that is 0 or a defect needs no chart.
fn torn(results: &Results, section: &mut Section) {
    let mut table = Table { head: vec![String::new(), "answers of two states".to_owned()], rows: Vec::new() };
    let mut subjects: Vec<&str> = results.find(Measure::Torn, &[]).map(|sample| sample.subject.as_str()).collect();
    subjects.sort_by_key(|&name| (subject::slot(name), name));
    subjects.dedup();
    for name in subjects {
        let torn = results.find(Measure::Torn, &[]).filter(|sample| sample.subject == name);
        let torn: f64 = torn.flat_map(|sample| &sample.rounds).sum();
        table.rows.push(vec![name.to_owned().into(), Unit::Count.show(torn).into()]);
    }
    if table.rows.is_empty() {
        section.missing.push(("Answers of two states".to_owned(), "matrix"));
        return;
    }
    put!(
        section.more,
        "<h3>Answers that no state gives</h3>\n<p class=\"note\">In all rounds together. Every strategy must have 0; the \
         baseline without a protocol must not, or the check sees nothing.</p>\n{}",
        table.html("narrow")
    );
}

fn growth(results: &Results) -> Section {
    let mut section = Section::new(
        "growth",
        "How the cost grows",
        "The same measures with more topics, connections and brokers. What should not depend on them is a flat line.",
    );
    let rows: [(Measure, &str, &'static str, &str, &str, Scale, &str); 9] = [
        (
            Measure::QueryRate,
            "topics",
            "topics",
            "growth",
            "Route queries a second by topics",
            Scale::Linear,
            "Should be flat but for caches: more topics than fit into them are fetched from memory.",
        ),
        (
            Measure::QueryRate,
            "connections",
            "connections",
            "growth",
            "Route queries a second by connections",
            Scale::Linear,
            "One request in flight on each. With one connection it is the time of a wake-up; with thousands the kernel has more \
          sockets to ask.",
        ),
        (
            Measure::QueryCpu,
            "topics",
            "topics",
            "growth",
            "Processor time of a route query by topics",
            Scale::Linear,
            "Should be flat but for caches: a lookup is one of a hash table.",
        ),
        (
            Measure::QueryCpu,
            "connections",
            "connections",
            "growth",
            "Processor time of a route query by connections",
            Scale::Linear,
            "Falls where one wake-up serves many connections.",
        ),
        (
            Measure::Memory,
            "topics",
            "topics",
            "growth",
            "Settled memory by topics",
            Scale::Log,
            "Both axes are logarithmic: what grows in proportion is a straight line.",
        ),
        (
            Measure::HeartbeatCpu,
            "topics",
            "topics",
            "growth",
            "Processor time of a heartbeat by topics",
            Scale::Linear,
            "Should be flat: a heartbeat touches one broker.",
        ),
        (
            Measure::ConnectionLoss,
            "brokers",
            "brokers that are not on it",
            "growth",
            "Loss of a connection with one broker until no route shows it",
            Scale::Linear,
            "Should be flat: the others have nothing to do with it. Most of it is a wake-up.",
        ),
        (
            Measure::Death,
            "topics",
            "topics",
            "large",
            "Death of a broker visible, by topics",
            Scale::Linear,
            "Grows with the topics of the broker that died.",
        ),
        (
            Measure::TopicList,
            "topics",
            "topics",
            "lists",
            "List of all topics",
            Scale::Linear,
            "Grows with the answer. The lookups of others meanwhile are in the table of goals.",
        ),
    ];
    for (measure, key, label, part, title, scale, caption) in rows {
        let sweeps = sweeps(results, measure, &[], key);
        if sweeps.is_empty() && matches!(measure, Measure::Death | Measure::TopicList) {
            // One size has a goal and no chart.
            continue;
        }
        for at in first(sweeps, 1) {
            let wanted = Wanted {
                id: format!("{}-by-{key}", serde_name(measure)),
                title: title.to_owned(),
                part,
                x: Axis::counted(label, Scale::Log),
                y: Axis { label: "", scale: scale.clone(), values: Values::Measured(Unit::of(measure)) },
                mark: Mark::Line,
                caption: format!("{caption}{}", others_of(at.as_ref())),
            };
            section.add(wanted, swept(results, measure, at.as_ref(), key));
        }
    }
    section.more = growth_table(results);
    section
}

/// The name of a measure as it is in files.
fn serde_name(measure: Measure) -> String {
    let name = serde_json::to_value(measure).ok();
    name.as_ref().and_then(|name| name.as_str()).unwrap_or("measure").to_owned()
}

/// The conditions that stay the same.
fn others_of(at: Option<&At>) -> String {
    let named: Vec<String> = at
        .into_iter()
        .flatten()
        .map(|(key, value)| match key.as_str() {
            "in_flight" => format!("{value} in flight"),
            key => format!("{} {key}", count(*value)),
        })
        .collect();
    if named.is_empty() { String::new() } else { format!(" With {}.", named.join(", ")) }
}

/// The cost of the largest as a multiple of that of the smallest.
fn growth_table(results: &Results) -> String {
    let rows = [
        ("processor time of a route query", Measure::QueryCpu, "topics"),
        ("processor time of a heartbeat", Measure::HeartbeatCpu, "topics"),
        ("loss of a connection until it is seen", Measure::ConnectionLoss, "brokers"),
    ];
    let mut table = Table {
        head: ["", "from", "to", "cost at the end, of that at the start"].map(str::to_owned).into(),
        rows: Vec::new(),
    };
    for (name, measure, key) in rows {
        let Some(at) = sweeps(results, measure, &[], key).into_iter().next() else { continue };
        for series in along(results, measure, &borrowed(&at), key) {
            let is_ours = BACKENDS.contains(&series.subject.as_str());
            let (Some(first), Some(last)) = (series.points.first(), series.points.last()) else { continue };
            if !is_ours || first.x == last.x || first.median <= 0.0 {
                continue;
            }
            table.rows.push(vec![
                format!("{name}, {}", series.subject).into(),
                format!("{} {key}", count(first.x)).into(),
                format!("{} {key}", count(last.x)).into(),
                Unit::Times.show(last.median / first.median).into(),
            ]);
        }
    }
    if table.rows.is_empty() {
        return String::new();
    }
    format!("<h3>What should not grow</h3>\n{}", table.html("narrow"))
}

fn peers(results: &Results) -> Section {
    let mut section = Section::new(
        "peers",
        "Beside other name servers",
        "The same load in the same rounds. Memory of the Java server is what its collector has taken so far, not what it \
         needs: a smaller heap would work, with more collections.",
    );
    let compared = |subject: &str| subject == DEFAULT_BACKEND || subject == FLOOR || subject::is_peer(subject);
    let in_flight =
        |measure| [1.0, 4.0].map(|in_flight| (measure, vec![CONNECTIONS, TOPICS, ("in_flight", in_flight)]));
    let two = || vec!["1 in flight".to_owned(), "4 in flight".to_owned()];
    let large = vec![("topics", 1e5), ("brokers", 4.0)];
    let memory = [(Measure::IdleMemory, Vec::new()), (Measure::Memory, large.clone()), (Measure::MemoryPeak, large)];
    type Row<'r> = (&'r str, &'r str, &'static str, Axis, Axis, Mark, Vec<Series>, &'r str);
    let rows: [Row<'_>; 4] = [
        (
            "peers-rate",
            "Route queries a second",
            "queries",
            Axis::groups(two()),
            linear("queries a second", Measure::QueryRate),
            Mark::Bar,
            beside(results, &in_flight(Measure::QueryRate)),
            "Higher is better. Only the default strategy is shown. Servers with more threads get more of a busy machine: \
          compare processor time first.",
        ),
        (
            "peers-cpu",
            "Processor time for a route query",
            "queries",
            Axis::groups(two()),
            Axis::measured("time a query", Scale::Log, Unit::Us),
            Mark::Dot,
            beside(results, &in_flight(Measure::QueryCpu)),
            "Lower is better. The axis is logarithmic. A Java server is warmed up first; a collection in a round counts.",
        ),
        (
            "peers-memory",
            "Resident memory",
            "large",
            Axis::groups(["idle", "100,000 topics x 4", "its peak"].map(str::to_owned).into()),
            Axis::measured("memory", Scale::Log, Unit::Mib),
            Mark::Dot,
            beside(results, &memory),
            "Lower is better. The axis is logarithmic. It does not show what the kernel holds for the sockets.",
        ),
        (
            "peers-start",
            "From the start to the first answer",
            "start",
            Axis::groups(vec!["start".to_owned()]),
            Axis::measured("time", Scale::Log, Unit::Ms),
            Mark::Dot,
            beside(results, &[(Measure::Start, Vec::new())]),
            "Lower is better. The axis is logarithmic; files are in the page cache.",
        ),
    ];
    for (id, title, part, x, y, mark, series, caption) in rows {
        let series = only(series, compared);
        // Without a peer there is nothing to stand beside.
        let has_peer = series.iter().any(|series| subject::is_peer(&series.subject));
        let series = if has_peer { series } else { Vec::new() };
        let (id, title, caption) = (id.to_owned(), title.to_owned(), caption.to_owned());
        section.add(Wanted { id, title, part, x, y, mark, caption }, series);
    }
    section
}

fn instructions(results: &Results) -> Section {
    let mut section = Section::new(
        "instructions",
        "Instructions",
        "Counted by valgrind: they do not depend on who else uses the machine, and they say nothing of caches, branches and \
         the kernel.",
    );
    let mut samples: Vec<_> = results.find(Measure::Instructions, &[]).collect();
    samples.sort_by(|one, two| {
        one.at.get("operation").partial_cmp(&two.at.get("operation")).unwrap_or(std::cmp::Ordering::Equal)
    });
    let mut table = Table { head: vec!["operation".to_owned(), "instructions".to_owned()], rows: Vec::new() };
    for sample in samples {
        let name = sample.at.get("operation").map(|&operation| names::operation(operation));
        let (Some(name), Some(instructions)) = (name, sample.median()) else { continue };
        table.rows.push(vec![name.into(), Unit::Count.show(instructions).into()]);
    }
    if table.rows.is_empty() {
        section.missing.push(("Instructions of hot operations".to_owned(), "instructions"));
    } else {
        put!(section.more, "{}", table.html("narrow"));
    }
    section
}

/// Links to all sections.
pub(crate) fn contents(sections: &[Section]) -> String {
    let mut out = String::new();
    for section in sections {
        put!(out, "<a href=\"#{}\">{}</a>\n", section.id, Escaped(section.title));
    }
    out
}
