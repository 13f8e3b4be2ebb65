//! What is measured over TCP, beside the floor.

use super::{CHARTS_MAX, CONNECTIONS, PERCENTILE, TOPICS, first, linear, log_us, only, ours, suffix, swept};
use crate::{
    page::{
        axis::{Axis, Scale},
        chart::Mark,
        section::{Section, Wanted},
        series::{At, Series, along, beside, sweeps},
        unit::{Unit, count},
    },
    results::{Measure, Results},
};

pub(super) fn lookups(results: &Results) -> Section {
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
    bars(
        Measure::GeneratorCpu,
        "generator",
        "How busy the load generator was",
        "of one processor",
        "At 100 % it is the limit, and not the server. It takes its part of the machine in any case: the ratios of rates \
         are those of server and generator together."
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

pub(super) fn storms(results: &Results) -> Section {
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
            "Higher is better. 16 connections, 4 in flight. {}, and so do the brokers that register: the rate falls by what they take, too.",
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
        (
            Measure::StormLatency,
            "storm-latency",
            "Latency of route queries under the storm",
            "storm",
            "On a machine with few processors the tail is made of turns that the scheduler gives to others as much as of \
             locks; the next section shows the same without sockets.",
        ),
        (
            Measure::StormRegistration,
            "storm-registration",
            "Time of a registration under the storm",
            "storm",
            "What a broker waits for its answer, parsing included. It does not show registrations that were never sent: the \
             part that was applied is in the table of goals.",
        ),
        (
            Measure::AvalancheLatency,
            "avalanche",
            "Latency of route queries during the avalanche",
            "avalanche",
            "Of all queries until the last broker was registered: who takes longer is asked longer. It does not show the time \
             until then, which is in the table of goals.",
        ),
    ];
    for (measure, id, title, part, caption) in curves {
        let wanted = Wanted {
            id: id.to_owned(),
            title: title.to_owned(),
            part,
            x: Axis::percentiles(),
            y: Axis::measured("latency", Scale::Log, Unit::of(measure)),
            mark: Mark::Line,
            caption: format!("Lower is better. Time counts from when it was due. {caption}"),
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

fn here(results: &Results) -> String {
    let cores = match results.machine.cores {
        0 => "the same processors".to_owned(),
        1 => "the same processor".to_owned(),
        cores => format!("the same {cores} processors"),
    };
    format!("The load generator runs on {cores}")
}

fn rate_of(at: Option<&At>) -> String {
    let rate = at.into_iter().flatten().find(|(key, _)| key == "per_second");
    rate.map(|&(_, rate)| format!(" of {} queries/s", count(rate))).unwrap_or_default()
}
