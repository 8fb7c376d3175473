//! A small SVG writer with only the elements that the report needs. All text is escaped. Colours come from classes, so
//! the page's style decides them (light, dark, print).

use std::fmt::{Display, Write};

/// Escapes text for HTML and SVG, in element content and in quoted attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Control characters are not allowed in a document; a replacement character shows their place.
            c if c.is_control() && c != '\n' && c != '\t' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// The anchor of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

/// An SVG image under construction. Coordinates are those of its view box; one decimal is kept.
#[derive(Debug)]
pub(crate) struct Svg {
    out: String,
}

impl Svg {
    /// Creates an image that scales to its container. Screen readers read out `title`.
    pub(crate) fn new(width: f64, height: f64, class: &str, title: &str) -> Self {
        Self::styled(width, height, class, "", title)
    }

    /// Creates the same with a style of its own.
    pub(crate) fn styled(width: f64, height: f64, class: &str, style: &str, title: &str) -> Self {
        let mut out = String::new();
        let _ = write!(
            out,
            "<svg class=\"{class}\" style=\"{style}\" viewBox=\"0 0 {width} {height}\" role=\"img\" xmlns=\"http://www.w3.org/2000/svg\"><title>{}</title>",
            escape(title)
        );
        Self { out }
    }

    pub(crate) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let _ = write!(
            self.out,
            "<line class=\"{class}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>",
            N(from.0),
            N(from.1),
            N(to.0),
            N(to.1)
        );
    }

    pub(crate) fn rect(&mut self, class: &str, x: f64, y: f64, width: f64, height: f64) {
        self.rounded(class, x, y, width, height, 0.0);
    }

    pub(crate) fn rounded(
        &mut self,
        class: &str,
        x: f64,
        y: f64,
        width: f64,
        height: f64,
        radius: f64,
    ) {
        let _ = write!(
            self.out,
            "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"{}\"/>",
            N(x),
            N(y),
            N(width.max(0.0)),
            N(height.max(0.0)),
            N(radius)
        );
    }

    pub(crate) fn circle(&mut self, class: &str, centre: (f64, f64), radius: f64) {
        let _ = write!(
            self.out,
            "<circle class=\"{class}\" cx=\"{}\" cy=\"{}\" r=\"{}\"/>",
            N(centre.0),
            N(centre.1),
            N(radius)
        );
    }

    pub(crate) fn text(&mut self, class: &str, at: (f64, f64), anchor: Anchor, text: &str) {
        let _ = write!(
            self.out,
            "<text class=\"{class}\" x=\"{}\" y=\"{}\" text-anchor=\"{}\">{}</text>",
            N(at.0),
            N(at.1),
            anchor.name(),
            escape(text)
        );
    }

    pub(crate) fn path(&mut self, class: &str, path: &Path) {
        if !path.d.is_empty() {
            let _ = write!(self.out, "<path class=\"{class}\" d=\"{}\"/>", path.d);
        }
    }

    pub(crate) fn finish(mut self) -> String {
        self.out.push_str("</svg>");
        self.out
    }
}

/// The points of a path.
#[derive(Debug, Default)]
pub(crate) struct Path {
    d: String,
}

impl Path {
    pub(crate) fn is_empty(&self) -> bool {
        self.d.is_empty()
    }

    pub(crate) fn go(&mut self, x: f64, y: f64) {
        let command = if self.d.is_empty() { 'M' } else { 'L' };
        let _ = write!(self.d, "{command}{} {}", N(x), N(y));
    }

    /// Begins a new line at a point.
    pub(crate) fn jump(&mut self, x: f64, y: f64) {
        let _ = write!(self.d, "M{} {}", N(x), N(y));
    }

    /// Draws a curve to `to`, bent towards `control`.
    pub(crate) fn bend(&mut self, control: (f64, f64), to: (f64, f64)) {
        let _ = write!(
            self.d,
            "Q{} {} {} {}",
            N(control.0),
            N(control.1),
            N(to.0),
            N(to.1)
        );
    }

    pub(crate) fn close(&mut self) {
        if !self.d.is_empty() {
            self.d.push('Z');
        }
    }
}

/// A coordinate with at most one decimal. A value that is not a number is drawn at 0.
struct N(f64);

impl Display for N {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tenths = if self.0.is_finite() {
            (self.0 * 10.0).round() as i64
        } else {
            0
        };
        if tenths % 10 == 0 {
            write!(f, "{}", tenths / 10)
        } else {
            write!(f, "{:.1}", tenths as f64 / 10.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_escapes_the_escape() {
        assert_eq!(
            escape("<a href='x' title=\"y\">&\u{1}</a>"),
            "&lt;a href=&#39;x&#39; title=&quot;y&quot;&gt;&amp;\u{fffd}&lt;/a&gt;"
        );
        let mut svg = Svg::new(10.0, 10.0, "c", "</title><script>");
        svg.text("t", (1.0, 2.26), Anchor::End, "<script>");
        let out = svg.finish();
        assert!(!out.contains("<script>"), "{out}");
        assert!(
            out.contains("x=\"1\" y=\"2.3\" text-anchor=\"end\""),
            "{out}"
        );
    }

    #[test]
    fn numbers_are_short_and_never_invalid() {
        assert_eq!(N(1.04).to_string(), "1");
        assert_eq!(N(-0.55).to_string(), "-0.6");
        assert_eq!(N(f64::NAN).to_string(), "0");
        assert_eq!(N(f64::INFINITY).to_string(), "0");
    }
}
