//! What is measured in one process.

use super::{CHARTS_MAX, PERCENTILE, first, linear, log_us, suffix, swept, values};
use crate::{
    page::{
        axis::{Axis, Scale},
        chart::Mark,
        goals,
        markup::put,
        names,
        section::{Section, Wanted},
        series::{At, along, beside, sweeps},
        subject,
        table::Table,
        unit::{Unit, count, exact},
    },
    results::{Measure, Results},
};

pub(super) fn section(results: &Results) -> Section {
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
    goals_of_strategies(results, &mut section);
    torn(results, &mut section);
    section
}

fn threads(results: &Results, section: &mut Section) {
    let quiet_and_not = [names::STEADY, names::RE_REGISTRATION];
    let measures = [
        (
            Measure::ReadRateCpu,
            "reads-cpu",
            "Lookups a second of processor time",
            &quiet_and_not[..],
            "Time of the reading threads, so that other programs do not count as contention. It does not show more threads \
             than this machine has processors: what bounces between two caches bounces worse between many.",
        ),
        (
            Measure::ReadRate,
            "reads-wall",
            "Lookups a second on the clock",
            &quiet_and_not[..1],
            "Other programs take their part. With more threads than processors it shows the scheduler rather than the lock.",
        ),
    ];
    for (measure, id, title, mixes, caption) in measures {
        for &mix in mixes {
            let at = sweeps(results, measure, &[("mix", mix)], "threads").into_iter().next();
            let conditions =
                at.as_ref().map_or_else(|| format!(", {}", names::mix(mix)), |at| mix_and_topics(Some(at)));
            let wanted = Wanted {
                id: format!("{id}-{mix}"),
                title: format!("{title}{conditions}"),
                part: "matrix",
                x: Axis::counted("reading threads", Scale::Log),
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
        put!(out, ", {} topics", exact(topics));
    }
    out
}

/// The number of topics at which a measure was taken with the most values of another condition.
fn fullest(results: &Results, measure: Measure, key: &str) -> Option<f64> {
    let kinds = |&topics: &f64| {
        let mut found: Vec<f64> =
            results.find(measure, &[("topics", topics)]).filter_map(|sample| sample.at.get(key).copied()).collect();
        found.sort_by(f64::total_cmp);
        found.dedup();
        found.len()
    };
    values(results, measure, "topics").into_iter().max_by_key(kinds)
}

fn tails(results: &Results, section: &mut Section) {
    let measure = Measure::ReadLatency;
    let mixes = values(results, measure, "mix");
    let most_topics = fullest(results, measure, "mix");
    for percentile in [99.0, 99.9] {
        let at = |mix: f64| {
            let topics = most_topics.map(|topics| ("topics", topics));
            [("mix", mix), (PERCENTILE, percentile)].into_iter().chain(topics).collect()
        };
        let groups: Vec<_> = mixes.iter().map(|&mix| (measure, at(mix))).collect();
        let topics = most_topics.map(|topics| format!(", {} topics", exact(topics))).unwrap_or_default();
        let wanted = Wanted {
            id: format!("tails-{percentile}"),
            title: format!("p{percentile} of a lookup by load{topics}"),
            part: "matrix",
            x: Axis::groups(mixes.iter().map(|&mix| names::mix(mix)).collect()),
            y: log_us("latency"),
            mark: Mark::Dot,
            caption:
                "Lower is better. Open loop, pinned threads. A registration changes all topics every 10 ms; one topic, a \
                      permission or an address change every ms. A lookup that waits for the writer stands far above the floor; the floor\u{2019}s own \
                      time is the machine\u{2019}s."
                    .to_owned(),
        };
        section.add(wanted, beside(results, &groups));
    }
    let mut storms = sweeps(results, measure, &[("mix", names::RE_REGISTRATION)], PERCENTILE);
    storms.sort_by_key(|at| topics_of(at).map(|topics| topics as u64));
    for at in first(storms, CHARTS_MAX) {
        let wanted = Wanted {
            id: format!("read-latency{}", suffix(at.as_ref())),
            title: format!("Latency of a lookup{}", while_registering(at.as_ref())),
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

fn topics_of(at: &At) -> Option<f64> {
    at.iter().find(|(key, _)| key == "topics").map(|&(_, topics)| topics)
}

fn while_registering(at: Option<&At>) -> String {
    let topics = at.and_then(topics_of).map(names::changing).unwrap_or_else(|| "topics".to_owned());
    format!(" while {topics} change every 10 ms")
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
    let most_topics = fullest(results, measure, "readers");
    let readers = values(results, measure, "readers");
    let (quiet, busy) =
        (readers.first().copied(), readers.last().copied().filter(|&busy| readers.first() != Some(&busy)));
    let charts =
        [(quiet, 50.0, "Median of a change while nobody reads"), (busy, 99.0, "p99 of a change while readers read")];
    for (readers, percentile, title) in charts {
        let at = |change: f64| {
            let more = [readers.map(|readers| ("readers", readers)), most_topics.map(|topics| ("topics", topics))];
            [("change", change), (PERCENTILE, percentile)].into_iter().chain(more.into_iter().flatten()).collect()
        };
        // Without a run with readers there is nothing that this chart could show.
        let wanted_changes: &[f64] = if readers.is_some() { &changes } else { &[] };
        let groups: Vec<_> = wanted_changes.iter().map(|&change| (measure, at(change))).collect();
        let topics = most_topics.map(|topics| format!(", {} topics", exact(topics))).unwrap_or_default();
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
    let topics = most_topics.map(|topics| format!(", {} topics", exact(topics))).unwrap_or_default();
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

fn goals_of_strategies(results: &Results, section: &mut Section) {
    if results.find(Measure::ReadLatency, &[]).next().is_none() {
        section.missing.push(("Goals of the strategies".to_owned(), "matrix"));
        return;
    }
    put!(
        section.more,
        "<h3>Goals of the strategies</h3>\n<p class=\"note\">Each has its own; one without pays for something else, as its \
         documentation says.</p>\n{}",
        goals::table_of_strategies(results).html("goals")
    );
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
        table.rows.push(vec![name.to_owned().into(), exact(torn).into()]);
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
