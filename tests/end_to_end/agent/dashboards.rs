//! The dashboards for Grafana ask for what there is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use fathom_tests::repository;
use serde_json::{Value, json};

use super::metrics::installed;

fn dashboard(name: &str) -> Value {
    let path = repository().join("packaging/grafana").join(name);
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The titles of panels, each with one of its questions.
fn targets(dashboard: &Value) -> Vec<(&str, &Value)> {
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| {
        let title = panel["title"].as_str().unwrap();
        let targets = panel["targets"].as_array().into_iter().flatten();
        targets.map(move |target| (title, target))
    });
    targets.collect()
}

/// The labels of each family, by the generated table.
fn families() -> BTreeMap<String, BTreeSet<String>> {
    let document = fs::read_to_string(repository().join("docs/metrics.md")).unwrap();
    let rows = document
        .lines()
        .filter(|line| line.starts_with("| `fathom_"));
    let families = rows.map(|row| {
        let mut columns = row.split('|').skip(1);
        let mut next = || columns.next().unwrap().replace(['`', ' '], "");
        let (family, _kind, labels) = (next(), next(), next());
        (family, labels.split(',').map(str::to_owned).collect())
    });
    families.collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
        .filter(|word| !word.is_empty())
}

/// What stands between these, everywhere.
fn between<'a>(text: &'a str, begin: &str, end: &str) -> Vec<&'a str> {
    let parts = text.split(begin).skip(1);
    parts
        .filter_map(|part| Some(part.split_once(end)?.0))
        .collect()
}

/// The labels that an expression selects or groups by.
fn labels_of(expression: &str) -> BTreeSet<&str> {
    let grouped = between(expression, "by (", ")").into_iter().flat_map(words);
    let selectors = between(expression, "{", "}").into_iter();
    let selected = selectors.flat_map(|selector| selector.split(", "));
    let selected = selected.filter_map(|one| words(one).next());
    grouped.chain(selected).collect()
}

#[test]
fn the_dashboard_for_prometheus_asks_for_metrics_that_there_are() {
    let families = families();
    assert!(families.len() > 30, "the table is found");
    let dashboard = dashboard("prometheus.json");
    let mut rules = Vec::new();
    let mut asked = BTreeSet::new();
    for (title, target) in targets(&dashboard) {
        let expression = target["expr"].as_str().unwrap();
        let mut known = BTreeSet::from(["instance", "le"]);
        for word in words(expression).filter(|word| word.starts_with("fathom_")) {
            let family = word.strip_suffix("_bucket").unwrap_or(word);
            let labels = families.get(family);
            let labels = labels.unwrap_or_else(|| panic!("{title}: there is no {family}"));
            known.extend(labels.iter().map(String::as_str));
            asked.insert(family.to_owned());
        }
        let legend = target["legendFormat"].as_str().unwrap();
        let shown = between(legend, "{{", "}}").into_iter();
        let labels = labels_of(expression).into_iter().chain(shown);
        for label in labels {
            assert!(known.contains(label), "{title}: {label} in {expression}");
        }
        let expression = expression.replace("$__rate_interval", "5m");
        rules.push(json!({"record": format!("panel{}", rules.len()), "expr": expression}));
    }
    assert!(asked.len() > 20, "{asked:?}");
    if installed("promtool").is_none() {
        return;
    }
    // JSON is YAML.
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("panels.yml");
    let groups = json!({"groups": [{"name": "panels", "rules": rules}]});
    fs::write(&path, groups.to_string()).unwrap();
    let mut promtool = Command::new("promtool");
    let done = promtool
        .args(["check", "rules"])
        .arg(&path)
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
}

/// What the dashboard for ClickHouse asks of one host, with the title of each panel: as Grafana's
/// data source makes it, of all times.
pub(crate) fn statements(host: &str) -> Vec<(String, String)> {
    let dashboard = dashboard("clickhouse.json");
    let targets = targets(&dashboard).into_iter();
    let panels = targets.map(|(title, target)| (title, target["rawSql"].as_str().unwrap()));
    let variables = dashboard["templating"]["list"].as_array().unwrap().iter();
    let variables = variables.filter(|it| it["type"] == "query");
    let variables =
        variables.map(|it| (it["label"].as_str().unwrap(), it["query"].as_str().unwrap()));
    let filled = panels.chain(variables).map(|(title, statement)| {
        let statement = statement
            .replace(
                "$__timeFilter(time)",
                "time >= toDateTime(1000000000) AND time <= toDateTime(4000000000)",
            )
            .replace(
                "$__timeInterval(time)",
                "toStartOfInterval(toDateTime(time), INTERVAL 60 second)",
            )
            .replace("$__interval_s", "60")
            .replace("${host:singlequote}", &format!("'{host}'"))
            .replace("${database}", "fathom");
        assert!(!statement.contains('$'), "{title}: {statement}");
        (title.to_owned(), statement)
    });
    filled.collect()
}
