//! The report in a real browser: headless Chromium must find all its parts, on a desktop and on a phone.
// A test may end with a panic; that is how it fails.
#![allow(clippy::expect_used)]

mod synthetic;

use std::path::{Path, PathBuf};
use std::process::Command;

use rtwire_measure::report::Report;
use rtwire_testkit::require;
use synthetic::{Story, report};

/// Folder for pages and screenshots.
fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report");
    std::fs::create_dir_all(&folder).expect("the target folder is ours");
    folder
}

fn chromium(page: &Path, width: u32, height: u32, extra: &[&str]) -> std::process::Output {
    let profile = tempfile::tempdir().expect("a temporary folder");
    let mut command = Command::new("chromium");
    command
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
        ])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--hide-scrollbars",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--window-size={width},{height}"))
        .args(extra)
        .arg(format!("file://{}", page.display()));
    let output = command.output();
    output.expect("chromium was found before")
}

fn write(name: &str, report: &Report) -> PathBuf {
    let page = folder().join(name);
    std::fs::write(&page, report.to_html()).expect("the target folder is ours");
    page
}

/// The page's content as the browser sees it.
fn dom(page: &Path, width: u32, height: u32) -> String {
    let output = chromium(page, width, height, &["--dump-dom"]);
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        dom.contains("</html>"),
        "chromium: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    dom
}

/// The page's section on one stream.
fn section<'a>(dom: &'a str, stream: &str) -> &'a str {
    let marker = format!("data-stream=\"{stream}\"");
    let from = dom
        .find(&marker)
        .unwrap_or_else(|| panic!("no section of {stream}"));
    dom[from..].split("</section>").next().unwrap_or_default()
}

/// Every stream with its promise, verdict and curves, and all other required parts.
fn is_complete(story: Story, name: &str) {
    let report = report(story, 8);
    assert_eq!(report.verdict.as_str(), name, "{:?}", report.reasons);
    let page = write(&format!("{name}.html"), &report);
    let dom = dom(&page, 1200, 4700);
    assert!(
        dom.contains(&format!("data-verdict=\"{name}\"")),
        "the headline says {name}"
    );
    for stream in &report.streams {
        let section = section(&dom, &stream.name);
        let promise = stream.promised_delay_ns.expect("each has one");
        let promise = format!("promised {}", rtwire_measure::units::duration(promise));
        assert_eq!(
            section.matches(&promise).count(),
            2,
            "{promise} in both plots of {}",
            stream.name
        );
        assert!(
            section.contains(&format!("badge {}", stream.verdict)),
            "{} of {}",
            stream.verdict,
            stream.name
        );
        for curve in ["curve network", "curve app", "curve median"] {
            let path = section
                .split(&format!("<path class=\"{curve}\" d=\""))
                .nth(1)
                .and_then(|p| p.split('"').next());
            let points = path.map_or(0, |p| p.matches('L').count());
            assert!(
                points > 50,
                "{curve} of {} has {points} points",
                stream.name
            );
        }
    }
    for word in [
        "Core 0",
        "Core 1",
        "Stalls over time",
        "rtwire lab examples/five-nodes.toml",
        "83.6 %",
        "Latency of the emulated ports",
    ] {
        assert!(dom.contains(word), "{word}");
    }
    photograph(&page, &format!("{name}-desk.png"), 1200, 4700);
}

/// Screenshots for people; the test only checks that they are not empty.
fn photograph(page: &Path, name: &str, width: u32, height: u32) {
    let picture = folder().join(name);
    chromium(
        page,
        width,
        height,
        &[&format!("--screenshot={}", picture.display())],
    );
    assert!(
        std::fs::metadata(&picture).is_ok_and(|m| m.len() > 100_000),
        "{name} shows something"
    );
}

#[test]
fn a_kept_run_is_found_complete() {
    require!(program "chromium");
    is_complete(Story::Kept, "kept");
}

#[test]
fn a_broken_run_is_found_complete() {
    require!(program "chromium");
    is_complete(Story::Broken, "broken");
}

#[test]
fn an_inconclusive_run_is_found_complete() {
    require!(program "chromium");
    is_complete(Story::Inconclusive, "inconclusive");
}

/// The page measures itself: no part is wider than a phone, except tables, which scroll in their own frame.
#[test]
fn a_phone_scrolls_only_downwards() {
    require!(program "chromium");
    let report = report(Story::Broken, 8);
    let html = report.to_html();
    photograph(&write("phone.html", &report), "broken-phone.png", 400, 8200);
    let probe = "<script>window.onload=()=>{const d=document.documentElement;\
        const wide=[...document.querySelectorAll('main>*,section>*,figure,svg.plot')].filter(e=>e.getBoundingClientRect().right>d.clientWidth+1).length;\
        const seen=[...document.querySelectorAll('[data-stream] path.curve')].filter(e=>e.getBoundingClientRect().width>100).length;\
        document.body.dataset.probe='wide '+wide+' page '+(d.scrollWidth<=d.clientWidth)+' curves '+seen}</script>";
    // A headless window is never narrower than about 500 px, but a frame is. The page is laid out in a frame of a
    // phone's width.
    let page = folder().join("probe.html");
    std::fs::write(&page, html.replace("</body>", &format!("{probe}</body>")))
        .expect("the target folder is ours");
    let frame = folder().join("frame.html");
    let outer = "<iframe src=\"probe.html\" width=\"400\" height=\"900\" onload=\"setTimeout(()=>{document.body.dataset.found=this.contentDocument.body.dataset.probe},0)\"></iframe>";
    std::fs::write(&frame, format!("<!doctype html><body>{outer}</body>"))
        .expect("the target folder is ours");
    let output = chromium(
        &frame,
        800,
        1000,
        &[
            "--dump-dom",
            "--allow-file-access-from-files",
            "--virtual-time-budget=5000",
        ],
    );
    let dom = String::from_utf8_lossy(&output.stdout);
    assert!(
        dom.contains("data-found=\"wide 0 page true curves 12\""),
        "{}",
        dom.chars().take(400).collect::<String>()
    );
}
