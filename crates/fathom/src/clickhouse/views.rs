//! The views of `fathom query`, in the dialect of ClickHouse, old and new.

use super::rollup::LENGTHS;
use super::schema::Dialect;

/// The file that each is named after, and the question.
const VIEWS: [(&str, &str); 9] = [
    ("agents.sql", include_str!("views/agents.sql")),
    ("connections.sql", include_str!("views/connections.sql")),
    ("dns.sql", include_str!("views/dns.sql")),
    ("flows.sql", include_str!("views/flows.sql")),
    ("hops.sql", include_str!("views/hops.sql")),
    ("hosts.sql", include_str!("views/hosts.sql")),
    ("labels.sql", include_str!("views/labels.sql")),
    ("processes.sql", include_str!("views/processes.sql")),
    ("servers.sql", include_str!("views/servers.sql")),
];

/// Those that longer intervals have, too.
const OF_INTERVALS: [&str; 3] = ["flows", "hops", "servers"];

/// What makes them anew.
pub(super) fn statements(database: &str, dialect: Dialect) -> Vec<String> {
    let mut statements = Vec::new();
    for (file, question) in VIEWS {
        let name = file.trim_end_matches(".sql");
        let mut question = question.replace("{database}", database);
        for part in ["0.5", "0.9", "0.99"] {
            question = question.replace(&format!("{{quantile {part}}}"), &quantile(part));
        }
        statements.extend(anew(database, name, &question));
        if dialect.can_refresh && OF_INTERVALS.contains(&name) {
            for (suffix, _) in LENGTHS {
                let longer = question.replace(" FINAL", &format!("_{suffix} FINAL"));
                statements.extend(anew(database, &format!("{name}_{suffix}"), &longer));
            }
        }
    }
    statements
}

fn anew(database: &str, name: &str, question: &str) -> [String; 2] {
    [
        format!("DROP TABLE IF EXISTS {database}.{name}"),
        format!("CREATE VIEW {database}.{name} AS {question}"),
    ]
}

/// That of a histogram with buckets that begin at `begins` and have `counts` samples; `passed` is
/// how many there are up to each. As `Histogram::quantile`: the middle of the bucket in which the
/// sample of that rank is.
pub(super) fn quantile(part: &str) -> String {
    let rank = format!("greatest(1, ceil({part} * passed[length(passed)] * (1 - 1e-15)))");
    let begin = format!("begins[arrayFirstIndex(it -> it >= {rank}, passed)]");
    // The first bucket is that from 512 ns, and also has what is shorter.
    let start = format!("greatest({begin}, 512)");
    format!("if(empty(passed), NULL, {start} + intExp2(toUInt8(floor(log2({start})) - 6)))")
}
