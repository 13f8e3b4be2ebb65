//! Charts that belong together, and those of them for which there is no measurement.

use super::{
    axis::Axis,
    chart::{Chart, Mark},
    markup::{Escaped, put},
    series::Series,
};
use crate::results::Results;

/// A part of the page.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) intro: &'static str,
    pub(crate) charts: Vec<Chart>,
    /// Titles of charts without samples, and the part of the run that makes these.
    pub(crate) missing: Vec<(String, &'static str)>,
    /// What else belongs to it, as HTML.
    pub(crate) more: String,
}

/// A chart before its samples are looked for.
pub(crate) struct Wanted {
    pub(crate) id: String,
    pub(crate) title: String,
    /// The part of the run that makes its samples.
    pub(crate) part: &'static str,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) mark: Mark,
    pub(crate) caption: String,
}

impl Section {
    pub(crate) fn new(id: &'static str, title: &'static str, intro: &'static str) -> Self {
        Self { id, title, intro, charts: Vec::new(), missing: Vec::new(), more: String::new() }
    }

    /// Adds a chart, or notes that there is nothing to show.
    pub(crate) fn add(&mut self, wanted: Wanted, mut series: Vec<Series>) {
        let Wanted { id, title, part, x, y, mark, caption } = wanted;
        let is_shown = |value: f64, axis: &Axis| axis.place(value).is_some();
        for one in &mut series {
            one.points.retain(|point| is_shown(point.x, &x) && is_shown(point.median, &y));
        }
        series.retain(|one| !one.points.is_empty());
        if series.is_empty() {
            self.missing.push((title, part));
        } else {
            self.charts.push(Chart { id, title, x, y, mark, series, caption });
        }
    }

    pub(crate) fn html(&self, results: &Results) -> String {
        let mut out = String::new();
        put!(out, "<section id=\"{}\">\n<h2>{}</h2>\n<p>{}</p>\n", self.id, Escaped(self.title), Escaped(self.intro));
        if !self.charts.is_empty() {
            out.push_str("<div class=\"charts\">\n");
            for chart in &self.charts {
                out.push_str(&chart.html());
            }
            out.push_str("</div>\n");
        }
        out.push_str(&self.more);
        for (reason, titles) in self.reasons(results) {
            put!(
                out,
                "<p class=\"missing\">Not measured ({}): {}.</p>\n",
                Escaped(reason),
                Escaped(&titles.join("; "))
            );
        }
        out.push_str("</section>\n");
        out
    }

    /// The titles of what is missing, by the reason for it.
    fn reasons<'s>(&'s self, results: &'s Results) -> Vec<(&'s str, Vec<&'s str>)> {
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        for (title, part) in &self.missing {
            let told = results.missing.iter().find(|missing| missing.subject == *part);
            let reason = told.map_or("the run has no samples", |missing| missing.reason.as_str());
            match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, titles)) => titles.push(title),
                None => reasons.push((reason, vec![title])),
            }
        }
        reasons
    }
}
