//! Elements of a configuration: read from XML, written as XML.

use std::fmt::Write as _;

use roxmltree::{Document, Node, ParsingOptions};

use crate::error::{NetconfError, begin, visible};

/// The namespace of NETCONF (RFC 6241, section 3.1).
pub(crate) const NETCONF: &str = "urn:ietf:params:xml:ns:netconf:base:1.0";
/// The deepest nesting. Data of a switch have ten levels.
const DEEPEST: usize = 40;
/// The most nodes of a message, as a limit of memory.
const MOST_NODES: u32 = 4_000_000;

/// The operation that an edit asks for (RFC 6241, section 7.2). Without one, an element is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The element stands as it is sent, with nothing besides.
    Replace,
    /// The element, which is there, is taken away.
    Delete,
}

/// The content of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Elements. A list entry is an element of its own.
    Nodes(Vec<Element>),
    /// A leaf's text. `prefix` is the namespace of its prefix, if it has one that is declared.
    Text {
        /// The text, without white space around it.
        text: String,
        /// The namespace that the text's prefix stands for.
        prefix: Option<String>,
    },
    /// The name of an identity, in its namespace.
    Identity {
        /// The namespace.
        namespace: String,
        /// The name.
        name: String,
    },
}

/// An element of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// Its name.
    pub name: String,
    /// The namespace of its module.
    pub namespace: String,
    /// The operation on it, in an edit.
    pub operation: Option<Operation>,
    /// Its content.
    pub content: Content,
}

impl Element {
    /// Returns an element with elements in it.
    #[must_use]
    pub fn nodes(namespace: &str, name: &str, nodes: Vec<Element>) -> Self {
        Self {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            operation: None,
            content: Content::Nodes(nodes),
        }
    }

    /// Returns a leaf.
    #[must_use]
    pub fn leaf(namespace: &str, name: &str, text: &str) -> Self {
        let content = Content::Text {
            text: text.to_owned(),
            prefix: None,
        };
        Self {
            content,
            ..Self::nodes(namespace, name, Vec::new())
        }
    }

    /// Returns the elements in it.
    #[must_use]
    pub fn children(&self) -> &[Element] {
        match &self.content {
            Content::Nodes(nodes) => nodes,
            _ => &[],
        }
    }

    /// Returns the elements in it, to be changed; `None` for a leaf.
    pub fn children_mut(&mut self) -> Option<&mut Vec<Element>> {
        match &mut self.content {
            Content::Nodes(nodes) => Some(nodes),
            _ => None,
        }
    }

    /// Returns the first element of this name in it.
    #[must_use]
    pub fn child(&self, name: &str) -> Option<&Element> {
        self.children().iter().find(|one| one.name == name)
    }

    /// Returns the value of a leaf as text; empty for others.
    #[must_use]
    pub fn value(&self) -> &str {
        match &self.content {
            Content::Nodes(_) => "",
            Content::Text { text, .. } => text,
            Content::Identity { name, .. } => name,
        }
    }

    /// Returns `true` if both are the same node of a module.
    pub(crate) fn is_like(&self, other: &Element) -> bool {
        self.name == other.name && self.namespace == other.namespace
    }

    /// Writes the element as XML.
    pub fn write(&self, into: &mut String) {
        self.write_in(into, "");
    }

    fn write_in(&self, into: &mut String, outer: &str) {
        let _ = write!(into, "<{}", self.name);
        if self.namespace != outer {
            let _ = write!(into, " xmlns=\"{}\"", escaped(&self.namespace));
        }
        if let Some(operation) = self.operation {
            let word = match operation {
                Operation::Replace => "replace",
                Operation::Delete => "delete",
            };
            let _ = write!(into, " xmlns:nc=\"{NETCONF}\" nc:operation=\"{word}\"");
        }
        match &self.content {
            Content::Nodes(nodes) if nodes.is_empty() => return into.push_str("/>"),
            Content::Nodes(nodes) => {
                into.push('>');
                nodes
                    .iter()
                    .for_each(|one| one.write_in(into, &self.namespace));
            }
            Content::Text { text, .. } => {
                into.push('>');
                into.push_str(&escaped(text));
            }
            Content::Identity { namespace, name } => {
                let _ = write!(into, " xmlns:id=\"{}\">id:{name}", escaped(namespace));
            }
        }
        let _ = write!(into, "</{}>", self.name);
    }
}

/// Returns text with XML's own characters replaced, and without those that XML does not have.
pub(crate) fn escaped(text: &str) -> String {
    let mut into = String::with_capacity(text.len());
    for one in text.chars() {
        match one {
            '&' => into.push_str("&amp;"),
            '<' => into.push_str("&lt;"),
            '>' => into.push_str("&gt;"),
            '"' => into.push_str("&quot;"),
            '\t' | '\n' | '\r' => {
                let _ = write!(into, "&#{};", u32::from(one));
            }
            _ if one.is_control() || matches!(one, '\u{fffe}' | '\u{ffff}') => into.push('?'),
            _ => into.push(one),
        }
    }
    into
}

/// Parses a message, and hands its root element on.
pub(crate) fn parsed<T>(
    bytes: &[u8],
    read: impl FnOnce(Node<'_, '_>) -> Result<T, NetconfError>,
) -> Result<T, NetconfError> {
    let wrong = |what: String| NetconfError::Xml {
        what: visible(&what),
        begin: begin(bytes),
    };
    let text = std::str::from_utf8(bytes).map_err(|error| wrong(error.to_string()))?;
    if is_too_deep(text) {
        return Err(wrong(format!(
            "it is nested more than {DEEPEST} levels deep"
        )));
    }
    let options = ParsingOptions {
        allow_dtd: false,
        nodes_limit: MOST_NODES,
    };
    // Servers write a line end behind a message, which would stand before the next one's declaration.
    let document = Document::parse_with_options(text.trim_start(), options)
        .map_err(|error| wrong(error.to_string()))?;
    read(document.root_element())
}

/// Returns `true` if elements are nested too deeply. The parser calls itself for each level.
fn is_too_deep(text: &str) -> bool {
    let mut rest = text;
    let mut depth = 0_usize;
    while let Some(at) = rest.find('<') {
        rest = &rest[at..];
        let skipped = [
            ("<!--", "-->"),
            ("<![CDATA[", "]]>"),
            ("<?", "?>"),
            ("</", ">"),
        ];
        if let Some((begin, end)) = skipped.iter().find(|(begin, _)| rest.starts_with(begin)) {
            if *begin == "</" {
                depth = depth.saturating_sub(1);
            }
            let Some(end_at) = rest[begin.len()..].find(end) else {
                return false;
            };
            rest = &rest[begin.len() + end_at + end.len()..];
            continue;
        }
        let Some(end) = end_of_tag(rest) else {
            return false;
        };
        if !rest[..end].ends_with('/') {
            depth += 1;
        }
        if depth > DEEPEST {
            return true;
        }
        rest = &rest[end + 1..];
    }
    false
}

/// Returns the place of the `>` that ends a tag; values of attributes may contain others.
fn end_of_tag(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(at),
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), _) if open == byte => quote = None,
            _ => {}
        }
    }
    None
}

/// Reads the elements below a node.
///
/// # Errors
/// They are nested too deeply.
pub(crate) fn below(node: Node<'_, '_>) -> Result<Vec<Element>, NetconfError> {
    read_below(node, 0)
}

fn read_below(node: Node<'_, '_>, depth: usize) -> Result<Vec<Element>, NetconfError> {
    if depth > DEEPEST {
        return Err(NetconfError::Protocol(format!(
            "its data are nested more than {DEEPEST} levels deep"
        )));
    }
    let elements = node.children().filter(Node::is_element);
    elements
        .map(|one| {
            let content = if one.children().any(|inner| inner.is_element()) {
                Content::Nodes(read_below(one, depth + 1)?)
            } else {
                text_of(one)
            };
            Ok(Element {
                name: one.tag_name().name().to_owned(),
                namespace: one.tag_name().namespace().unwrap_or_default().to_owned(),
                operation: None,
                content,
            })
        })
        .collect()
}

fn text_of(node: Node<'_, '_>) -> Content {
    let text: String = node.children().filter_map(|one| one.text()).collect();
    let text = text.trim();
    let prefix = text.split_once(':').map(|(prefix, _)| prefix);
    let prefix = prefix.and_then(|prefix| node.lookup_namespace_uri(Some(prefix)));
    let prefix = prefix.map(str::to_owned);
    Content::Text {
        text: text.to_owned(),
        prefix,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Element>, NetconfError> {
        parsed(text.as_bytes(), below)
    }

    #[test]
    fn what_is_written_is_read() {
        let identity = Element {
            content: Content::Identity {
                namespace: "urn:c".to_owned(),
                name: "kind".to_owned(),
            },
            ..Element::nodes("urn:b", "type", Vec::new())
        };
        let tree = Element::nodes(
            "urn:a",
            "top",
            vec![
                Element::leaf("urn:a", "words", "a<b> & \"c\" 'd' ä\ttab"),
                Element::nodes(
                    "urn:b",
                    "inner",
                    vec![identity, Element::nodes("urn:b", "none", vec![])],
                ),
            ],
        );
        let mut text = String::from("<all>");
        tree.write(&mut text);
        text.push_str("</all>");
        let found = read(&text).unwrap();
        assert_eq!(found[0].child("words"), tree.child("words"));
        let inner = found[0].child("inner").unwrap();
        assert_eq!(inner.namespace, "urn:b");
        let wanted = Content::Text {
            text: "id:kind".to_owned(),
            prefix: Some("urn:c".to_owned()),
        };
        assert_eq!(inner.child("type").unwrap().content, wanted);
    }

    #[test]
    fn hostile_xml_is_an_error_and_no_end_of_the_program() {
        let deep = format!("<r>{}{}</r>", "<a>".repeat(100_000), "</a>".repeat(100_000));
        assert!(read(&deep).is_err());
        let hidden = format!(
            "<r a='>'>{}<!-- </a> --><![CDATA[</a>]]>{}</r>",
            "<a b=\"/>\"><c/>".repeat(50_000),
            "</a>".repeat(50_000)
        );
        assert!(read(&hidden).is_err());
        // What never ends.
        for begin in ["<a", "<a b='", "<!--", "<![CDATA[", "</a", "<?a"] {
            assert!(read(&format!("<r>{begin}")).is_err());
        }
        let bomb = "<!DOCTYPE r [<!ENTITY a \"aaaa\">]><r>&a;</r>";
        assert!(read(bomb).is_err());
        assert!(read("no xml").is_err());
        assert!(parsed(b"\xff", below).is_err());
    }
}
