//! Converts untrusted HTML to text.
//!
//! Building the tree of a page takes time and memory quadratic in its open elements, and dropping a
//! deep tree overflows the stack. So one pass first computes an upper bound of the cost.

use std::thread;

use tokio::sync::{Semaphore, oneshot};

/// Columns of the text.
const WIDTH: usize = 120;

/// The greatest depth of a page.
const MAX_OPEN: usize = 1000;

/// Limits of the sums, over all tags, of the open elements that the parser scans and of those that
/// it copies.
const MAX_SCANS: usize = 10_000_000;
const MAX_COPIES: usize = 500_000;

/// A thread cannot be stopped, so their number is limited.
static CONVERTING: Semaphore = Semaphore::const_new(4);

const STACK: usize = 64 << 20;

/// Elements that nest only with other elements in between, which count.
const NEVER_DEEP: [&str; 25] = [
    "area", "base", "br", "col", "colgroup", "dd", "dt", "embed", "hr", "img", "input", "li",
    "link", "meta", "option", "p", "param", "source", "tbody", "td", "tfoot", "th", "thead", "tr",
    "wbr",
];

/// Formatting elements, which the parser opens again in later blocks if they are not closed.
const COPIED: [&str; 14] = [
    "a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u",
];

pub(super) async fn to_text(html: String) -> Result<String, String> {
    let html = without_foreign(html);
    if !is_affordable(&html) {
        return Err("The HTML of the page is nested too deeply to be read.".to_owned());
    }
    let unreadable = |_| "The HTML of the page cannot be read.".to_owned();
    let permit = CONVERTING.acquire().await.map_err(|error| error.to_string())?;
    let (done, text) = oneshot::channel();
    let convert = move || {
        let config = html2text::config::plain().allow_width_overflow();
        let text = config.string_from_read(html.as_bytes(), WIDTH);
        drop(permit);
        // The receiver may be dropped.
        let _ = done.send(text);
    };
    // Not a thread of the runtime: the process does not wait for this one when it exits.
    let thread = thread::Builder::new().name("html".to_owned()).stack_size(STACK);
    thread.spawn(convert).map_err(|error| error.to_string())?;
    text.await.map_err(|_| "The HTML of the page cannot be read.".to_owned())?.map_err(unreadable)
}

/// Renames SVG and MathML elements: inside them other parsing rules apply, and anything can nest.
fn without_foreign(html: String) -> String {
    let mut bytes = html.into_bytes();
    for start in 0..bytes.len() {
        let name = match &bytes[start..] {
            [b'<', b'/', ..] => start + 2,
            [b'<', ..] => start + 1,
            _ => continue,
        };
        for foreign in [&b"svg"[..], b"math"] {
            let Some(found) = bytes.get_mut(name..name + foreign.len()) else { continue };
            if found.eq_ignore_ascii_case(foreign) {
                found.fill(b'x');
            }
        }
    }
    // Only ASCII was replaced by ASCII, so this is valid UTF-8.
    String::from_utf8(bytes).unwrap_or_default()
}

/// Whether the cost of building the tree is within the limits.
fn is_affordable(html: &str) -> bool {
    let mut open: Vec<&str> = Vec::new();
    let (mut copied, mut scans, mut copies) = (0, 0, 0);
    let html = html.to_ascii_lowercase();
    let mut rest = html.as_str();
    while let Some((_, after)) = rest.split_once('<') {
        rest = after;
        if let Some(comment) = rest.strip_prefix("!--") {
            rest = after_comment(comment);
            continue;
        }
        let (tag, is_end) = rest.strip_prefix('/').map_or((rest, false), |tag| (tag, true));
        let name = &tag[..tag
            .find(|c: char| c.is_ascii_whitespace() || "/><".contains(c))
            .unwrap_or(tag.len())];
        if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || NEVER_DEEP.contains(&name) {
            scans += open.len();
            copies += copied;
        } else if is_end {
            // Only the last opened element is certain to be closed: the parser ignores some end
            // tags.
            if open.pop_if(|last| *last == name).is_some() && COPIED.contains(&name) {
                copied -= 1;
            }
        } else {
            open.push(name);
            copied += usize::from(COPIED.contains(&name));
            scans += open.len();
            copies += copied;
            if matches!(name, "script" | "style") {
                rest = rest.find(&format!("</{name}")).map_or("", |end| &rest[end..]);
            }
        }
        if open.len() > MAX_OPEN || scans > MAX_SCANS || copies > MAX_COPIES {
            return false;
        }
    }
    true
}

fn after_comment(comment: &str) -> &str {
    let is_empty = comment.strip_prefix('>').or_else(|| comment.strip_prefix("->"));
    is_empty.unwrap_or_else(|| {
        let end = ["-->", "--!>"].iter().filter_map(|end| comment.find(end)).min();
        end.map_or("", |end| &comment[end..])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn pages_become_text_with_markdown_structure() {
        let page = "<!doctype html><title>T</title><script>if (a<b) { '<div><div>' }</script><style>p{}</style><!-- <b> -->
            <h1>Hello</h1><p>one<p>two <a href='/more'>more</a><ul><li>x<li>y</ul><table><tr><td>a<td>b</table>
            <svg><title>icon</title><path/></svg>&copy; <b>bold</b>";
        let text = to_text(page.to_owned()).await.unwrap();
        for part in ["# Hello", "one\n", "[more][1]", "[1]: /more", "* x\n* y", "a│b", "© **bold**"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("if (a") && !text.contains("p{}"), "{text}");
    }

    #[tokio::test]
    async fn ordinary_pages_are_affordable_at_any_length() {
        let row = "<tr><td><a href=x><b>n</b></a><td><input><br><img src=y></tr>";
        let item = "<li><div class=c><p>one<p>two <i>x</i></div>";
        let page = format!(
            "<body><div><table>{}</table><ul>{}</ul></div>",
            row.repeat(10_000),
            item.repeat(10_000)
        );
        assert!(is_affordable(&page));
        assert!(is_affordable(&format!("<script>{}</script>", "i<n;".repeat(10_000))));
        assert!(is_affordable(&"<div><span>unclosed</div>".repeat(400)));
        assert!(
            is_affordable("")
                && is_affordable("<")
                && is_affordable("</")
                && is_affordable("<!--")
                && is_affordable("a < b")
        );
    }

    #[tokio::test]
    async fn a_page_that_costs_too_much_is_refused() {
        let mib = |text: &str| text.repeat((1 << 20) / text.len());
        let distinct: String = (0..20_000).map(|n| format!("<b id={n}><p>x")).collect();
        for (page, what) in [
            (mib("<div>"), "nested"),
            (mib("<b>"), "copied"),
            (distinct, "copied, each for itself"),
            (mib("<ul><li>"), "lists"),
            (mib("<table><tr><td>"), "tables"),
            (mib("<div></z>"), "end tags of nothing"),
            (mib("<div><table></div></table>"), "end tags that are ignored"),
            (mib("<DIV\n>"), "spelt otherwise"),
            (mib("<!--><div>"), "comments that end at once"),
            (mib("<svg><td>"), "drawings, which are elements like others"),
            (mib("<rt>"), "of a kind that is seldom nested"),
            ("<b>".repeat(900) + &mib("<p>x"), "many copies"),
        ] {
            let error = to_text(page).await.err();
            assert_eq!(
                error.as_deref(),
                Some("The HTML of the page is nested too deeply to be read."),
                "{what}"
            );
        }
    }

    #[tokio::test]
    async fn pages_just_within_the_limits_are_converted() {
        for page in [
            "<div>".repeat(990) + "x",
            "<blockquote>".repeat(900) + "x",
            "<ul><li>".repeat(900) + "x",
            "<table><tr><td>".repeat(300) + "x",
            "<b>".repeat(400) + &"<p>x".repeat(500),
            "<table><tr>".to_owned() + &"<td>x".repeat(2000),
            "<table>".to_owned() + &"<tr><td>x<td>y".repeat(2000),
            "<svg><style>".to_owned() + &"<td>".repeat(100_000) + "</style>x",
        ] {
            let started = std::time::Instant::now();
            let text = to_text(page.clone()).await.unwrap();
            assert!(text.contains('x'), "{}", &page[..20]);
            assert!(started.elapsed().as_secs() < 20, "{}", &page[..20]);
        }
    }
}
