//! Text for HTML: what comes from a file of results is data and never markup.

use std::fmt::{self, Write as _};

/// Shows a text so that HTML takes it as text, in elements and in quoted attributes.
pub(crate) struct Escaped<'t>(pub(crate) &'t str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for symbol in self.0.chars() {
            match symbol {
                '&' => out.write_str("&amp;")?,
                '<' => out.write_str("&lt;")?,
                '>' => out.write_str("&gt;")?,
                '"' => out.write_str("&quot;")?,
                '\'' => out.write_str("&#39;")?,
                other => out.write_char(other)?,
            }
        }
        Ok(())
    }
}

/// Appends formatted text to a string, which cannot fail.
macro_rules! put {
    ($out:expr, $($text:tt)*) => {{
        use std::fmt::Write as _;
        let _ = write!($out, $($text)*);
    }};
}
pub(crate) use put;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_becomes_markup() {
        assert_eq!(Escaped("<b a=\"1\">&'").to_string(), "&lt;b a=&quot;1&quot;&gt;&amp;&#39;");
    }
}
