//! One chart with everything that belongs to it: title, legend, drawing, caption and the numbers.

use super::{
    axis::Axis,
    draw,
    markup::{Escaped, put},
    series::{Point, Series},
    subject::slot,
    table::{Cell, Table},
};

/// A chart before it is drawn.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    /// Unique in the page.
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) mark: Mark,
    pub(crate) series: Vec<Series>,
    /// What is seen, and what is not.
    pub(crate) caption: String,
}

/// How the values of a series are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// A line through the medians; the quartiles are whiskers, or a band where there are many points.
    Line,
    /// A bar from zero, with the quartiles as a whisker.
    Bar,
    /// A dot and a whisker.
    Dot,
}

impl Chart {
    /// The chart as a figure.
    pub(crate) fn html(&self) -> String {
        let Self { id, title, caption, series, .. } = self;
        let drawn =
            draw::chart(self).unwrap_or_else(|error| format!("<p>Not drawn: {}</p>\n", Escaped(&error.to_string())));
        let mut out = String::new();
        put!(out, "<figure id=\"{0}\" data-chart=\"{0}\" data-series-count=\"{1}\">\n", Escaped(id), series.len());
        put!(out, "<h3>{}</h3>\n{}{drawn}", Escaped(title), self.legend());
        put!(out, "<figcaption>{}</figcaption>\n", Escaped(caption));
        put!(out, "<details><summary>Numbers</summary>\n{}</details>\n</figure>\n", self.numbers().html("numbers"));
        out
    }

    fn legend(&self) -> String {
        let mut out = String::from("<ul class=\"legend\">");
        for Series { subject, .. } in &self.series {
            let key = draw::key(slot(subject), self.mark).unwrap_or_default();
            put!(out, "<li>{key}{}</li>", Escaped(subject));
        }
        out.push_str("</ul>\n");
        out
    }

    /// A row for each place on the x axis, a column for each series.
    fn numbers(&self) -> Table {
        let mut places: Vec<f64> = self.used().collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        let mut table = Table { head: vec![self.x.label.to_owned()], rows: Vec::new() };
        table.head.extend(self.series.iter().map(|series| series.subject.clone()));
        for place in places {
            let cell = |series: &Series| match series.points.iter().find(|point| point.x == place) {
                Some(point) => self.cell(point),
                None => Cell::from("-".to_owned()),
            };
            let name = std::iter::once(Cell::from(self.x.text(place)));
            table.rows.push(name.chain(self.series.iter().map(cell)).collect());
        }
        table
    }

    fn cell(&self, point: &Point) -> Cell {
        let Point { low, median, high, .. } = *point;
        let note = if low == high { String::new() } else { format!("{} to {}", self.y.text(low), self.y.text(high)) };
        Cell { text: self.y.text(median), note, is_met: None }
    }

    /// Every x of every series.
    pub(crate) fn used(&self) -> impl Iterator<Item = f64> {
        self.series.iter().flat_map(|series| series.points.iter().map(|point| point.x))
    }
}
