//! The other name servers, and the instructions of ours.

use super::{CONNECTIONS, TOPICS, linear, only};
use crate::{
    page::{
        axis::{Axis, Scale},
        chart::Mark,
        goals,
        markup::put,
        names,
        section::{Section, Wanted},
        series::{Series, beside},
        subject::{self, DEFAULT_BACKEND, FLOOR},
        table::Table,
        unit::{Unit, exact},
    },
    results::{Measure, Results},
};

pub(super) fn section(results: &Results) -> Section {
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
    let table = goals::table_of_peers(results);
    if !table.rows.is_empty() {
        put!(section.more, "<h3>The measures of the goals, ours and theirs</h3>\n{}", table.html("goals"));
    }
    section
}

pub(super) fn instructions(results: &Results) -> Section {
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
        table.rows.push(vec![name.into(), exact(instructions).into()]);
    }
    if table.rows.is_empty() {
        section.missing.push(("Instructions of hot operations".to_owned(), "instructions"));
    } else {
        put!(section.more, "{}", table.html("narrow"));
    }
    section
}
