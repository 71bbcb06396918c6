//! Every command of README.md and docs/, run in a shell on a host between real traffic: it must
//! print something or leave what it is to leave, and end with status 0, after Ctrl-C if need be.
#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

mod commands;
mod run;
mod scene;

use std::collections::BTreeSet;
use std::fs;
use std::thread;

use fathom_tests::repository;

use commands::{Documented, commands};
use run::{Running, needed, needs_terminal, on_terminal, service};
use scene::Scene;

/// How commands begin that cannot run here, and why.
const ELSEWHERE: [(&str, &str); 7] = [
    ("sudo apt ", "tests/package/run installs the packages"),
    (
        "fathom rtt /usr/share/",
        "tests/package/run reads the sample of the package",
    ),
    ("skopeo ", "tests/package/run unpacks the image"),
    ("docker ", "nothing here runs containers"),
    (
        "make ",
        "it builds or tests everything; continuous integration runs it by itself",
    ),
    (
        "git clone ",
        "it fetches what others captured, from outside",
    ),
    ("benches/real-traffic ", "it needs what others captured"),
];
/// Commands that only look at things run so many at a time.
const SIDE_BY_SIDE: usize = 3;

/// README.md and the pages of docs/, with all their commands; and lines of blocks without a label
/// that look like commands.
fn documents() -> (Vec<Vec<Documented>>, Vec<String>) {
    let root = repository();
    let mut names = vec!["README.md".to_owned()];
    for entry in fs::read_dir(root.join("docs")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "md") {
            names.push(format!("docs/{}", path.file_name().unwrap().display()));
        }
    }
    names.sort();
    let (mut documents, mut unlabelled) = (Vec::new(), Vec::new());
    for name in names {
        let text = fs::read_to_string(root.join(&name)).unwrap();
        let (commands, suspicious) = commands(&name, &text);
        documents.push(commands);
        unlabelled.extend(suspicious);
    }
    (documents, unlabelled)
}

fn reason(command: &Documented) -> Option<&'static str> {
    let found = ELSEWHERE
        .iter()
        .find(|(start, _)| command.text.starts_with(start));
    found.map(|(_, reason)| *reason)
}

#[test]
fn blocks_with_commands_say_so() {
    let (documents, unlabelled) = documents();
    assert_eq!(unlabelled, Vec::<String>::new(), "label them sh or console");
    let all: Vec<_> = documents.into_iter().flatten().collect();
    assert!(all.len() > 60, "commands are found");
    for (start, _) in ELSEWHERE {
        let is_used = all.iter().any(|it| it.text.starts_with(start));
        assert!(is_used, "no document has `{start}`");
    }
}

#[test]
fn every_command_of_the_documents_works() {
    if fathom_lab::is_skipped() {
        return;
    }
    let only = std::env::var("FATHOM_DOCUMENT").ok();
    let (documents, _) = documents();
    let mut seen = BTreeSet::new();
    let scene = Scene::build().unwrap();
    let mut failures = Vec::new();
    for commands in documents {
        let is_wanted = |it: &&Documented| only.as_ref().is_none_or(|name| it.document == *name);
        let here = commands
            .iter()
            .filter(is_wanted)
            .filter(|it| reason(it).is_none());
        // What one document has shown, another need not, unless its other commands rely on it.
        let new = here.filter(|it| seen.insert(it.text.clone()) || service(&it.text).is_some());
        failures.extend(run_all(&scene, &new.collect::<Vec<_>>()));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// Runs the commands of a document in its order. Services run until another takes their place, or
/// the document ends.
fn run_all(scene: &Scene, commands: &[&Documented]) -> Vec<String> {
    let mut failures = Vec::new();
    let mut services: Vec<Running> = Vec::new();
    let mut rest = commands;
    while let Some(&first) = rest.first() {
        if service(&first.text).is_some() {
            begin(scene, first, &mut services, &mut failures);
            rest = &rest[1..];
            continue;
        }
        let is_looking = |it: &&&Documented| service(&it.text).is_none();
        let count = rest
            .iter()
            .take_while(is_looking)
            .take(SIDE_BY_SIDE)
            .count();
        let (now, later) = rest.split_at(count);
        rest = later;
        for text in now.iter().filter_map(|it| needed(&it.text)) {
            let kind = service(text);
            if services.iter().all(|it| !it.is_like(kind.as_deref())) {
                let text = text.to_owned();
                let needed = Documented {
                    text,
                    ..first.clone()
                };
                begin(scene, &needed, &mut services, &mut failures);
            }
        }
        let ended = thread::scope(|scope| {
            let start = |command| scope.spawn(move || run_one(scene, command));
            let running: Vec<_> = now.iter().map(|command| start(command)).collect();
            let ended = running.into_iter().map(|it| it.join().unwrap());
            ended.filter_map(Result::err).collect::<Vec<_>>()
        });
        failures.extend(ended);
    }
    failures.extend(services.into_iter().filter_map(|it| it.end().err()));
    failures
}

/// Starts a service, in place of the one that has its address.
fn begin(
    scene: &Scene,
    command: &Documented,
    services: &mut Vec<Running>,
    failures: &mut Vec<String>,
) {
    println!("{command}");
    let own = service(&command.text);
    let before = services.extract_if(.., |it| it.service == own);
    failures.extend(before.filter_map(|it| it.end().err()));
    let started = Running::start(scene, command);
    match started.and_then(|mut running| running.work(scene).map(|()| running)) {
        Ok(running) => services.push(running),
        Err(failure) => failures.push(failure),
    }
}

fn run_one(scene: &Scene, command: &Documented) -> Result<(), String> {
    println!("{command}");
    if needs_terminal(&command.text) {
        return on_terminal(scene, command);
    }
    let mut running = Running::start(scene, command)?;
    running.work(scene)?;
    running.end()
}
