//! The report as a page.
mod axis;
mod chart;
mod draw;
mod floor;
mod markup;
mod series;
mod subject;
mod table;
mod unit;
