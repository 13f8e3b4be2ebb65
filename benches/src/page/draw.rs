//! The drawing of a chart, as SVG without colours of its own.
//!
//! The library writes a fixed colour into every element. The colours that it is given here are therefore keys, which say
//! what is drawn; [`dress`] puts classes in their place and gathers the elements of a series in a group that bears its
//! name. The colours themselves are in `style.css`, for light and for dark.

use std::{error::Error, ops::Range};

use plotters::{
    coord::{
        Shift,
        ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter},
        types::RangedCoordf64,
    },
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use super::{
    axis::{Axis, Scale, Tick},
    chart::{Chart, Mark},
    markup::{Escaped, put},
    series::{Point, Series},
    subject::slot,
};

/// Small, so that its text is readable on a phone.
const SIZE: (u32, u32) = (460, 300);
/// Of a line with its marker in a legend.
const KEY_SIZE: (u32, u32) = (30, 14);
/// Room for the values beside the y axis, the label above it, and the values below the x axis.
const Y_ROOM: u32 = 62;
const TOP_ROOM: u32 = 26;
const X_ROOM: u32 = 42;
/// The right margin.
const END_ROOM: u32 = 14;
/// As in `style.css`; here it only decides how much room a label gets.
const TEXT: f64 = 13.0;

/// With so many points a line has markers and whiskers; with more, a band.
const MARKED_POINTS_MAX: usize = 12;
/// The part of a group's room that its bars or dots take.
const GROUP_PART: f64 = 0.8;
/// The marker of a bar is above it.
const ABOVE_BAR: i32 = 8;
/// About the width of a letter, for names that are too long for the room of a group.
const LETTER: f64 = 7.4;
const LINE_WIDTH: u32 = 2;
const WHISKER_WIDTH: u32 = 1;
const BAND_OPACITY: f64 = 0.14;

/// The keys: red says what it is, blue which series, and green, in a series, what is not in its colour.
const GRID: RGBColor = RGBColor(1, 0, 0);
const AXIS: RGBColor = RGBColor(2, 0, 0);
const LABEL: RGBColor = RGBColor(3, 0, 0);
const SERIES: u8 = 4;
const ON_BAR: u8 = 1;

type Drawn<T> = Result<T, Box<dyn Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Plot<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Places, Places>>;

/// Draws a chart.
///
/// # Errors
/// What the library says; into memory there should be nothing.
pub(crate) fn chart(chart: &Chart) -> Drawn<String> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        draw(chart, &root)?;
        root.present()?;
    }
    let names: Vec<&str> = chart.series.iter().map(|series| series.subject.as_str()).collect();
    let label = format!("{}: {}", chart.title, names.join(", "));
    Ok(dress(&svg, &format!("class=\"chart\" role=\"img\" aria-label=\"{}\"", Escaped(&label)), &chart.series))
}

/// Draws what stands for a series in a legend.
///
/// # Errors
/// As [`chart`].
pub(crate) fn key(slot: usize, mark: Mark) -> Drawn<String> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, KEY_SIZE).into_drawing_area();
        let (width, middle) = (KEY_SIZE.0 as i32, KEY_SIZE.1 as i32 / 2);
        let colour = colour(0);
        match mark {
            Mark::Line => {
                root.draw(&PathElement::new([(0, middle), (width, middle)], colour.stroke_width(LINE_WIDTH)))?
            }
            Mark::Bar => root.draw(&Rectangle::new([(0, 1), (12, 2 * middle - 1)], colour.filled()))?,
            Mark::Dot => {}
        }
        let at = if mark == Mark::Bar { width - 8 } else { width / 2 };
        root.draw(&marker((at, middle), slot, &colour))?;
        root.present()?;
    }
    let dressed = dress(&svg, "class=\"key\" aria-hidden=\"true\"", &[]);
    Ok(dressed.replace("<g class=\"series\">", &format!("<g class=\"series s{slot}\">")).replace('\n', ""))
}

fn draw(chart: &Chart, root: &Area<'_>) -> Drawn<()> {
    let [x_range, y_range] = ranges(chart);
    let mut used: Vec<f64> = chart.used().collect();
    used.sort_by(f64::total_cmp);
    used.dedup();
    let (mut x_ticks, y_ticks) = (chart.x.ticks(x_range, &used), chart.y.ticks(y_range, &[]));
    let names = group_names(&chart.x, &mut x_ticks);
    let mut plot = ChartBuilder::on(root)
        .margin_right(END_ROOM)
        .margin_top(TOP_ROOM)
        .x_label_area_size(X_ROOM)
        .y_label_area_size(Y_ROOM)
        .build_cartesian_2d(Places::new(x_range, x_ticks), Places::new(y_range, y_ticks))?;
    let label = ("sans-serif", TEXT * 1.24).into_text_style(root).color(&LABEL);
    plot.configure_mesh()
        .disable_x_mesh()
        .bold_line_style(GRID.stroke_width(1))
        .axis_style(AXIS.stroke_width(1))
        .label_style(label.clone())
        .x_desc(chart.x.label)
        .axis_desc_style(label.clone())
        .draw()?;
    root.draw(&Text::new(chart.y.label, (4, 2), label.pos(Pos::new(HPos::Left, VPos::Top))))?;
    for (place, lines) in names {
        let (x, y) = plot.backend_coord(&(place, y_range.0));
        for (line, below) in lines.into_iter().zip([9, 24]) {
            root.draw(&Text::new(line, (x, y + below), label.pos(Pos::new(HPos::Center, VPos::Top))))?;
        }
    }
    for index in 0..chart.series.len() {
        draw_series(chart, index, root, &mut plot)?;
    }
    Ok(())
}

/// Takes the names of groups out of the marks of an axis, for they may need two lines.
fn group_names(axis: &Axis, ticks: &mut [Tick]) -> Vec<(f64, Vec<String>)> {
    let Scale::Groups(groups) = &axis.scale else { return Vec::new() };
    let room = f64::from(SIZE.0 - Y_ROOM - END_ROOM) / groups.len().max(1) as f64;
    let names = ticks.iter_mut().map(|tick| (tick.place, two_lines(&std::mem::take(&mut tick.text), room)));
    names.collect()
}

/// A text in one line or, if it is too wide for that and has spaces, in two.
fn two_lines(text: &str, room: f64) -> Vec<String> {
    let is_narrow = text.chars().count() as f64 * LETTER < room;
    let middle = text.len() / 2;
    let spaces = text.match_indices(' ').map(|(at, _)| at);
    match spaces.min_by_key(|at| at.abs_diff(middle)).filter(|_| !is_narrow) {
        Some(at) => vec![text[..at].to_owned(), text[at + 1..].to_owned()],
        None => vec![text.to_owned()],
    }
}

/// The ends of both axes, as places.
fn ranges(chart: &Chart) -> [(f64, f64); 2] {
    let all = || chart.series.iter().flat_map(|series| &series.points);
    let range = |axis: &Axis, values: &mut dyn Iterator<Item = f64>| {
        let shown = values.filter(|&value| axis.place(value).is_some());
        let (low, high) =
            shown.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        axis.range(low, high)
    };
    [
        range(&chart.x, &mut all().map(|point| point.x)),
        range(&chart.y, &mut all().flat_map(|point| [point.low, point.median, point.high])),
    ]
}

fn draw_series(chart: &Chart, index: usize, root: &Area<'_>, plot: &mut Plot<'_, '_>) -> Drawn<()> {
    let series = &chart.series[index];
    let colour = colour(index);
    let slot = slot(&series.subject);
    let points: Vec<Placed> = series.points.iter().filter_map(|point| placed(chart, index, point)).collect();
    let is_marked = chart.mark != Mark::Line || points.len() <= MARKED_POINTS_MAX;
    let middle = || points.iter().map(|point| (point.x, point.median));
    match chart.mark {
        Mark::Line => {
            if !is_marked {
                let upper = points.iter().map(|point| (point.x, point.high));
                let lower = points.iter().rev().map(|point| (point.x, point.low));
                let band: Vec<(f64, f64)> = upper.chain(lower).collect();
                plot.draw_series([Polygon::new(band, colour.mix(BAND_OPACITY).filled())])?;
            }
            plot.draw_series(LineSeries::new(middle(), colour.stroke_width(LINE_WIDTH)))?;
        }
        Mark::Bar => {
            let half = GROUP_PART / chart.series.len() as f64 / 2.0 * 0.9;
            let bar = |(x, y): (f64, f64)| Rectangle::new([(x - half, 0.0), (x + half, y)], colour.filled());
            plot.draw_series(middle().map(bar))?;
        }
        Mark::Dot => {}
    }
    if is_marked {
        let spread = points.iter().filter(|point| point.low < point.high);
        let whisker = |point: &Placed| {
            let ends = [(point.x, point.low), (point.x, point.high)];
            // On its own bar a whisker of the same colour would not be seen.
            let colour = if chart.mark == Mark::Bar { RGBColor(colour.0, ON_BAR, colour.2) } else { colour };
            PathElement::new(ends, colour.stroke_width(WHISKER_WIDTH))
        };
        plot.draw_series(spread.map(whisker))?;
        for point in &points {
            let at = if chart.mark == Mark::Bar {
                let (x, y) = plot.backend_coord(&(point.x, point.high));
                (x, y - ABOVE_BAR)
            } else {
                plot.backend_coord(&(point.x, point.median))
            };
            root.draw(&marker(at, slot, &colour))?;
        }
    }
    Ok(())
}

/// A point on both axes.
struct Placed {
    x: f64,
    low: f64,
    median: f64,
    high: f64,
}

/// Where a point of the series with this index is; beside those of the others where there are groups.
fn placed(chart: &Chart, index: usize, point: &Point) -> Option<Placed> {
    let mut x = chart.x.place(point.x)?;
    if matches!(chart.x.scale, Scale::Groups(_)) {
        let count = chart.series.len() as f64;
        x += (index as f64 - (count - 1.0) / 2.0) * GROUP_PART / count;
    }
    let median = chart.y.place(point.median)?;
    let or_median = |value| chart.y.place(value).unwrap_or(median);
    Some(Placed { x, low: or_median(point.low), median, high: or_median(point.high) })
}

fn colour(index: usize) -> RGBColor {
    // More series than a byte holds are in no chart; they would share a key.
    RGBColor(SERIES, 0, u8::try_from(index).unwrap_or(u8::MAX))
}

/// The places of an axis, with the marks that stand beside it.
struct Places {
    range: RangedCoordf64,
    ticks: Vec<Tick>,
}

impl Places {
    fn new((low, high): (f64, f64), ticks: Vec<Tick>) -> Self {
        Self { range: (low..high).into(), ticks }
    }
}

impl Ranged for Places {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, limit: (i32, i32)) -> i32 {
        self.range.map(place, limit)
    }

    fn key_points<H: KeyPointHint>(&self, hint: H) -> Vec<f64> {
        // There are no smaller marks between them.
        let is_bold = !hint.weight().allow_light_points();
        self.ticks.iter().filter(|_| is_bold).map(|tick| tick.place).collect()
    }

    fn range(&self) -> Range<f64> {
        self.range.range()
    }
}

impl ValueFormatter<f64> for Places {
    fn format_ext(&self, place: &f64) -> String {
        let tick = self.ticks.iter().find(|tick| tick.place == *place);
        tick.map(|tick| tick.text.clone()).unwrap_or_default()
    }
}

/// Puts classes in the place of the keys, and each series into a group.
fn dress(svg: &str, attributes: &str, series: &[Series]) -> String {
    let mut out = String::with_capacity(svg.len());
    let mut open = None;
    for line in svg.lines() {
        let key = key_of(line);
        let group = key.and_then(|key| (key.0 == SERIES).then_some(usize::from(key.2)));
        // The text of a label stands on a line of its own, without a key.
        let is_element = line.starts_with('<');
        if is_element && open != group {
            if open.is_some() {
                out.push_str("</g>\n");
            }
            match group.map(|index| series.get(index)) {
                Some(Some(Series { subject, .. })) => {
                    put!(out, "<g class=\"series s{}\" data-series=\"{}\">", slot(subject), Escaped(subject));
                    put!(out, "<title>{}</title>\n", Escaped(subject));
                }
                Some(None) => out.push_str("<g class=\"series\">"),
                None => {}
            }
            open = group;
        }
        let size = "viewBox=";
        match (line.strip_prefix("<svg "), line.find(size)) {
            (Some(_), Some(at)) => put!(out, "<svg {attributes} {}", &line[at..]),
            _ => out.push_str(&dress_element(line, key)),
        }
        out.push('\n');
    }
    out
}

/// The key in a line.
fn key_of(line: &str) -> Option<RGBColor> {
    let colour = colour_of(line)?;
    let byte = |at: usize| colour.get(at..at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
    Some(RGBColor(byte(1)?, byte(3)?, byte(5)?))
}

fn colour_of(line: &str) -> Option<&str> {
    line.split('"').find(|value| value.len() == 7 && value.starts_with('#'))
}

/// An element with a class for what it is, or, in a series, in the colour of its group.
fn dress_element(line: &str, key: Option<RGBColor>) -> String {
    let (Some(key), Some(colour)) = (key, colour_of(line)) else { return line.to_owned() };
    let class = match key {
        RGBColor(SERIES, ON_BAR, _) => "axis",
        RGBColor(SERIES, ..) => return line.replace(colour, "currentColor"),
        GRID => "grid",
        AXIS => "axis",
        _ => "label",
    };
    let line = line.replace(&format!("stroke=\"{colour}\""), &format!("class=\"{class}\""));
    let line = line.replace(&format!("fill=\"{colour}\""), &format!("class=\"{class}\""));
    // The font is that of the page.
    match (line.find("font-family="), line.find("opacity=")) {
        (Some(from), Some(to)) if from < to => format!("{}{}", &line[..from], &line[to..]),
        _ => line,
    }
}

/// A marker of the shape that belongs to a place of the palette: series are told apart without colours.
fn marker((x, y): (i32, i32), slot: usize, colour: &RGBColor) -> Polygon<(i32, i32)> {
    let corners = corners(slot).iter().map(|&(right, down)| (x + right, y + down));
    Polygon::new(corners.collect::<Vec<_>>(), colour.filled())
}

/// Corners of a marker around its middle.
const fn corners(slot: usize) -> &'static [(i32, i32)] {
    match slot {
        0 => &[(-2, -5), (2, -5), (5, -2), (5, 2), (2, 5), (-2, 5), (-5, 2), (-5, -2)],
        1 => &[(0, -5), (5, 4), (-5, 4)],
        2 => &[(-4, -4), (4, -4), (4, 4), (-4, 4)],
        3 => &[(0, -6), (6, 0), (0, 6), (-6, 0)],
        4 => &[(0, 5), (5, -4), (-5, -4)],
        5 => &[(-5, -1), (5, -1), (5, 1), (-5, 1)],
        6 => {
            &[(-5, -4), (-4, -5), (0, -1), (4, -5), (5, -4), (1, 0), (5, 4), (4, 5), (0, 1), (-4, 5), (-5, 4), (-1, 0)]
        }
        7 => &[
            (-1, -5),
            (1, -5),
            (1, -1),
            (5, -1),
            (5, 1),
            (1, 1),
            (1, 5),
            (-1, 5),
            (-1, 1),
            (-5, 1),
            (-5, -1),
            (-1, -1),
        ],
        8 => &[(-5, -5), (5, -5), (-5, 5), (5, 5)],
        9 => &[(5, 0), (-4, 5), (-4, -5)],
        10 => &[(-5, 0), (4, 5), (4, -5)],
        _ => &[(-2, -5), (2, -5), (2, 5), (-2, 5)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::unit::Unit;

    fn chart_of(mark: Mark, x: Scale, points: usize) -> Chart {
        let point = |x| Point { x: x as f64 + 1.0, low: 0.5, median: 1.0, high: x as f64 + 2.0 };
        let series = |subject: &str| Series { subject: subject.to_owned(), points: (0..points).map(point).collect() };
        Chart {
            id: "c".to_owned(),
            title: "a <b>".to_owned(),
            x: Axis::counted("topics", x),
            y: Axis::measured("time", Scale::Log, Unit::Us),
            mark,
            series: vec![series("rwlock"), series("<script>"), series("floor")],
            caption: String::new(),
        }
    }

    #[test]
    fn each_series_is_a_group_and_no_key_is_left() {
        let groups = Scale::Groups(vec!["0".to_owned(), "1".to_owned(), "a & b".to_owned()]);
        for (mark, x, points) in [
            (Mark::Line, Scale::Log, 4),
            (Mark::Line, Scale::Linear, 50),
            (Mark::Bar, groups.clone(), 2),
            (Mark::Dot, groups, 2),
        ] {
            let svg = chart(&chart_of(mark, x, points)).unwrap();
            for name in ["rwlock", "&lt;script&gt;", "floor"] {
                assert_eq!(svg.matches(&format!("data-series=\"{name}\"")).count(), 1, "{name}: {svg}");
            }
            assert!(!svg.contains("\"#"), "{svg}");
            assert!(!svg.contains("<script") && !svg.contains("<b>"), "{svg}");
            assert_eq!(svg.matches("<g ").count(), svg.matches("</g>").count());
            assert_eq!(svg.matches("<text ").count(), svg.matches("</text>").count());
        }
    }

    #[test]
    fn a_chart_of_nothing_is_drawn() {
        let mut empty = chart_of(Mark::Line, Scale::Log, 1);
        empty.series[0].points[0] = Point { x: -1.0, low: 0.0, median: 0.0, high: 0.0 };
        empty.series[1].points.clear();
        assert!(chart(&empty).is_ok());
        empty.series.clear();
        assert!(chart(&empty).is_ok());
    }

    #[test]
    fn a_long_name_has_two_lines() {
        assert_eq!(two_lines("rolling restart", 76.0), ["rolling", "restart"]);
        assert_eq!(two_lines("rolling restart", 200.0), ["rolling restart"]);
        assert_eq!(two_lines("avalanche", 10.0), ["avalanche"]);
    }

    #[test]
    fn a_key_has_the_class_of_its_place() {
        assert!(key(3, Mark::Line).unwrap().contains("class=\"series s3\""));
        assert!(key(3, Mark::Bar).unwrap().contains("<rect"));
    }
}
