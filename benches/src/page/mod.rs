//! The report as one page, and its goals as a table for a terminal.
//!
//! [`html`] writes a file that needs nothing else: no network, no script, no font. It shows what is there: a run that was
//! interrupted or left parts out gives a page without these, which says so.

mod advice;
mod axis;
mod chart;
mod charts;
mod draw;
mod facts;
mod floor;
mod goals;
mod headline;
mod markup;
mod names;
mod section;
mod series;
mod subject;
pub mod synthetic;
mod table;
mod unit;

use self::{
    markup::{Escaped, put},
    subject::DEFAULT_BACKEND,
};
use crate::results::{Machine, Results};

const STYLE: &str = include_str!("style.css");
const TITLE: &str = "namesrv: performance report";

/// The whole report as one HTML file.
pub fn html(results: &Results) -> String {
    let results = &floor::with_one(results);
    let sections = charts::sections(results);
    let mut out = String::from("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    out.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    out.push_str("<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n");
    put!(out, "<title>{TITLE}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<header>\n");
    put!(out, "<p class=\"kicker\">Performance report, {}</p>\n", Escaped(&results.machine.date));
    put!(out, "<h1>{}</h1>\n", Escaped(&headline::sentence(results)));
    for warning in warnings(results) {
        put!(out, "<p class=\"banner\" role=\"note\">{}</p>\n", Escaped(&warning));
    }
    out.push_str(&headline::figures(results));
    out.push_str(&machine_block(&results.machine));
    put!(
        out,
        "</header>\n<nav aria-label=\"Sections\">\n<a href=\"#goals\">Goals</a>\n<a href=\"#advice\">Which backend</a>\n"
    );
    put!(out, "{}</nav>\n{}", charts::contents(&sections), goals_section(results));
    out.push_str(&advice_section(results));
    for section in &sections {
        out.push_str(&section.html(results));
    }
    put!(out, "{}</main>\n</body>\n</html>\n", limits_section(results));
    out
}

/// The headline and the table of goals, as Markdown.
pub fn text(results: &Results) -> String {
    let results = &floor::with_one(results);
    let Machine { date, processor, cores, commit, .. } = &results.machine;
    let mut out = format!("{}\n\n", headline::sentence(results));
    put!(out, "{date}, {processor}, {cores} cores, commit {commit}.\n");
    for warning in warnings(results) {
        put!(out, "{warning}\n");
    }
    put!(out, "\n{}\n", goals::table(results).markdown());
    let advice = advice::advise(results);
    if !advice.is_empty() {
        out.push_str("\nWhich backend:\n\n");
        for advice::Advice { load, pick, reason } in advice {
            put!(out, "- {load}: `{pick}`. {reason}\n");
        }
    }
    for missing in &results.missing {
        put!(out, "\nNot measured: {} ({})\n", missing.subject, missing.reason);
    }
    out
}

/// What a reader must know before a number is quoted.
fn warnings(results: &Results) -> Vec<String> {
    let mut warnings = Vec::new();
    if !results.is_complete {
        warnings.push("This run was interrupted: what it had measured until then is shown.".to_owned());
    }
    if results.is_quick {
        warnings.push(
            "This is a quick run, with few and short rounds: it shows that everything works. Do not quote it."
                .to_owned(),
        );
    }
    if results.machine.commit.ends_with("-dirty") {
        warnings.push("The program was built from a tree that differs from its commit.".to_owned());
    }
    warnings
}

fn goals_section(results: &Results) -> String {
    let table = goals::table(results);
    let (met, judged) = headline::goals_met(results);
    format!(
        "<section id=\"goals\">\n<h2>Goals</h2>\n<p>The default strategy, {DEFAULT_BACKEND}, reaches {met} of the {judged} goals \
         that were measured. A ratio to the floor is the median of the ratios of the rounds, in which both took turns; the floor \
         of a row is the better one of one worker and two.</p>\n{}</section>\n",
        table.html("goals")
    )
}

fn advice_section(results: &Results) -> String {
    let mut out = String::from("<section id=\"advice\">\n<h2>Which backend should I pick?</h2>\n");
    let advice = advice::advise(results);
    if advice.is_empty() {
        out.push_str("<p class=\"missing\">Too little was measured for advice.</p>\n");
    } else {
        out.push_str("<p>Rules over the numbers of this run, not opinions: another run may say something else.</p>\n<dl class=\"advice\">\n");
        for advice::Advice { load, pick, reason } in &advice {
            put!(out, "<div><dt>{}</dt><dd><b>{}</b> {}</dd></div>\n", Escaped(load), Escaped(pick), Escaped(reason));
        }
        out.push_str("</dl>\n");
    }
    let losses = advice::losses(results);
    if !losses.is_empty() {
        out.push_str("<h3>Where each loses</h3>\n<dl class=\"losses\">\n");
        for advice::Losses { backend, losses } in losses {
            put!(out, "<div><dt>{}</dt><dd>", Escaped(backend));
            match losses.as_slice() {
                [] => out.push_str("Nowhere by more than the noise of this run."),
                losses => {
                    out.push_str("<ul>");
                    for loss in losses {
                        put!(out, "<li>{}</li>", Escaped(loss));
                    }
                    out.push_str("</ul>");
                }
            }
            out.push_str("</dd></div>\n");
        }
        out.push_str("</dl>\n");
    }
    out.push_str("</section>\n");
    out
}

fn machine_block(machine: &Machine) -> String {
    let Machine { date, processor, cores, memory_mib, system, compiler, commit, load: (before, after) } = machine;
    let rows = [
        ("start", format!("{date} UTC")),
        ("processor", processor.clone()),
        ("processors used", cores.to_string()),
        ("memory", unit::Unit::Mib.show(*memory_mib as f64)),
        ("system", system.clone()),
        ("compiler", compiler.clone()),
        ("commit", commit.clone()),
        ("load before and after", format!("{before:.1} and {after:.1}")),
    ];
    let mut out = String::from("<dl class=\"machine\" id=\"machine\">\n");
    for (name, value) in rows {
        let value = if value.is_empty() { "unknown" } else { &value };
        put!(out, "<div><dt>{name}</dt><dd>{}</dd></div>\n", Escaped(value));
    }
    out.push_str("</dl>\n");
    out
}

/// What was left out, and what the page as a whole does not show.
fn limits_section(results: &Results) -> String {
    let mut out = String::from("<section id=\"limits\">\n<h2>What this does not show</h2>\n<ul>\n");
    for limit in LIMITS {
        put!(out, "<li>{limit}</li>\n");
    }
    out.push_str("</ul>\n");
    if !results.missing.is_empty() {
        out.push_str("<h3>Not measured</h3>\n<ul>\n");
        for missing in &results.missing {
            put!(out, "<li><b>{}</b>: {}</li>\n", Escaped(&missing.subject), Escaped(&missing.reason));
        }
        out.push_str("</ul>\n");
    }
    out.push_str("</section>\n");
    out
}

const LIMITS: [&str; 5] = [
    "Another machine. Load generator and servers share the processors. With more of them the generator would be the limit long \
     before the server, and over a real network latency is the network\u{2019}s.",
    "Many processors. What two of them do to each other says little of sixty-four: caches that bounce, bounce worse.",
    "A quiet machine. Under load from others, programs with more threads get more of it. Compare processor time first, then \
     rates; ratios move less than absolute numbers.",
    "Small times. Below a millisecond over TCP it is the wake-up of another thread that is measured; a busy machine doubles it.",
    "Days. Rounds last seconds: nothing here says how memory looks after a week.",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Measure, Missing, Sample};

    fn count(page: &str, what: &str) -> usize {
        page.matches(what).count()
    }

    /// Each chart has as many groups as it claims, and ids are unique.
    fn check(page: &str) -> usize {
        let mut ids: Vec<&str> = page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all, "ids are not unique");
        let figures: Vec<&str> = page.split("<figure ").skip(1).collect();
        for figure in &figures {
            let figure = figure.split("</figure>").next().unwrap();
            let claimed = figure.split("data-series-count=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
            assert_eq!(claimed.parse(), Ok(count(figure, "data-series=\"")), "{figure}");
            assert!(count(figure, "<figcaption>") == 1 && count(figure, "<details>") == 1);
        }
        assert!(!page.contains("NaN") && !page.contains("inf "), "a number is none");
        assert!(!page.contains("http://") || count(page, "http://") == count(page, "http://www.w3.org/2000/svg"));
        assert!(!page.contains("https://") && !page.contains("<script"));
        figures.len()
    }

    #[test]
    fn a_whole_run_has_every_chart() {
        let page = html(&synthetic::results());
        assert!(check(&page) >= 30, "{} charts", check(&page));
        assert_eq!(count(&page, "class=\"missing\""), 0);
        assert_eq!(count(&page, "class=\"banner\""), 0);
        assert!(page.contains("it is &lt;not&gt; installed"));
    }

    #[test]
    fn every_measure_may_be_missing() {
        let all = synthetic::results();
        let mut measures: Vec<Measure> = all.samples.iter().map(|sample| sample.measure).collect();
        measures.sort_unstable();
        measures.dedup();
        assert!(measures.len() >= 36, "{}: a measure without a synthetic value", measures.len());
        for measure in measures {
            let without = |sample: &&Sample| sample.measure != measure;
            let only = |sample: &&Sample| sample.measure == measure;
            for samples in [
                all.samples.iter().filter(without).cloned().collect::<Vec<_>>(),
                all.samples.iter().filter(only).cloned().collect(),
            ] {
                let results = Results { samples, ..all.clone() };
                check(&html(&results));
                assert!(text(&results).contains("goal"));
            }
        }
        for subject in ["rwlock", "floor 1 worker", "floor", "official 5.5.0"] {
            let mut results = all.clone();
            results.samples.retain(|sample| sample.subject != subject);
            check(&html(&results));
        }
    }

    #[test]
    fn an_empty_run_is_a_page_that_says_so() {
        let mut results = Results { is_quick: true, ..Results::default() };
        results.missing.push(Missing { subject: "storm".to_owned(), reason: "no ports left".to_owned() });
        let page = html(&results);
        assert_eq!(check(&page), 0);
        assert_eq!(count(&page, "class=\"banner\""), 2);
        assert!(
            page.contains("Not measured (no ports left): Route queries a second, with and without the storm; Latency")
        );
        assert!(text(&results).contains("not measured"));
    }

    #[test]
    fn strange_numbers_do_no_harm() {
        let mut results = synthetic::results();
        for (index, sample) in results.samples.iter_mut().enumerate() {
            sample.rounds = match index % 5 {
                0 => Vec::new(),
                1 => vec![f64::NAN, 1.0],
                2 => vec![0.0; 3],
                3 => vec![-1.0, f64::INFINITY],
                _ => vec![1e300, 1e-300],
            };
            if index % 7 == 0 {
                sample.subject = "<script>alert(1)</script>".to_owned();
            }
        }
        html(&results);
        assert!(!html(&results).contains("<script"));
        text(&results);
    }
}
