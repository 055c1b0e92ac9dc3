//! `cargo xtask attack`: every attack that once worked, or was tried, as a test with a bound.

use std::collections::BTreeSet;
use std::time::Instant;

use anyhow::{Result, bail, ensure};

use crate::command_line::{show_elapsed, workspace_root};
use crate::tool::Tool;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only list the attacks and their bounds
    #[arg(long)]
    list: bool,
}

/// An attack, the bound that must hold, and the test that makes it.
struct Attack {
    attack: &'static str,
    bound: &'static str,
    package: &'static str,
    test: &'static str,
}

const fn attack(
    attack: &'static str,
    bound: &'static str,
    package: &'static str,
    test: &'static str,
) -> Attack {
    Attack { attack, bound, package, test }
}

const ATTACKS: &[Attack] = &[
    // Resources, without a key.
    attack(
        "bodies without end to settle links and webhooks, over HTTP/2, from 12 connections",
        "resident memory rises by less than 384 MB",
        "hapax-cli",
        "strangers_who_send_all_they_can_do_not_fill_the_memory",
    ),
    attack(
        "headers that dribble",
        "cut after 10 s",
        "hapax-server",
        "a_client_that_dribbles_its_headers_is_cut_off_and_others_are_served",
    ),
    attack(
        "connections that never ask",
        "cut after 10 s",
        "hapax-server",
        "a_connection_that_never_asks_is_cut_long_before_it_would_count_as_idle",
    ),
    attack(
        "the same over HTTP/2",
        "cut after 10 s",
        "hapax-server",
        "a_client_that_never_asks_is_cut_off_on_http2_too",
    ),
    attack(
        "bodies that dribble",
        "408 after 30 s",
        "hapax-server",
        "a_client_that_dribbles_its_body_gets_408_and_is_cut_off",
    ),
    attack(
        "headers of 64 KiB, and ten thousand of them",
        "431",
        "hapax-server",
        "a_header_of_64_kib_and_ten_thousand_headers_are_431",
    ),
    attack(
        "many headers over HTTP/2",
        "431 beyond 100",
        "hapax-server",
        "a_request_with_more_than_a_hundred_headers_is_431_on_http2_too",
    ),
    attack(
        "rapid reset of HTTP/2 streams",
        "the connection ends",
        "hapax-server",
        "a_client_that_opens_and_resets_streams_without_end_is_sent_away",
    ),
    attack(
        "floods of empty HTTP/2 frames",
        "others are served",
        "hapax-server",
        "floods_of_frames_that_say_nothing_do_not_hurt_others",
    ),
    attack(
        "bodies beyond their limit",
        "413, reading stops",
        "hapax-server",
        "a_body_beyond_the_limit_is_413_and_reading_stops",
    ),
    // Resources, with a key.
    attack(
        "expensive expressions of one workspace",
        "a cheap run of another ends meanwhile",
        "hapax-documents",
        "a_cheap_run_ends_while_another_workspace_floods_the_evaluator",
    ),
    attack(
        "a document that starts itself",
        "stays within the limit of its family, and ends",
        "hapax-server",
        "a_fork_bomb_of_documents_stays_within_the_limit_and_ends",
    ),
    attack(
        "the same in code",
        "stays within the limit of its family",
        "hapax-engine",
        "a_fork_bomb_stays_within_the_limit_of_its_family",
    ),
    attack(
        "a cancelled root whose children go on",
        "every descendant ends",
        "hapax-server",
        "cancelling_a_root_with_its_descendants_ends_a_fork_bomb",
    ),
    attack(
        "runs without end",
        "429 at the quota, others start",
        "hapax-server",
        "a_workspace_with_its_quota_of_open_runs_starts_no_more_until_one_ends",
    ),
    attack(
        "starts without pause",
        "429 at the quota",
        "hapax-server",
        "a_workspace_starts_so_many_runs_a_second",
    ),
    attack(
        "long polls without end",
        "429 at the quota, others are served",
        "hapax-server",
        "a_workspace_waits_with_so_many_requests_at_once",
    ),
    attack(
        "live streams of many credentials",
        "429 at the quota",
        "hapax-server",
        "a_workspace_keeps_so_many_streams_open_with_all_its_credentials",
    ),
    // Requests that are read in two ways.
    attack(
        "transfer codings other than chunked",
        "400",
        "hapax-server",
        "two_lengths_or_a_length_that_is_none_are_400_and_the_connection_is_closed",
    ),
    attack(
        "a length beside chunks",
        "nothing is smuggled",
        "hapax-server",
        "a_length_beside_chunks_smuggles_nothing_and_ends_the_connection",
    ),
    attack(
        "paths in disguise",
        "no other route is reached",
        "hapax-server",
        "a_path_in_disguise_reaches_no_route",
    ),
    // Rights.
    attack(
        "every route with every role",
        "only who may gets in",
        "hapax-server",
        "each_route_lets_in_who_may_and_nobody_else",
    ),
    attack(
        "ids of another workspace on every route",
        "404, as if they did not exist",
        "hapax-server",
        "another_workspace_sees_nothing_not_even_that_there_is_something",
    ),
    attack(
        "guessed keys",
        "429 after 20 from one address",
        "hapax-server",
        "failures_are_limited_by_address_and_by_key",
    ),
    attack(
        "a stream after the key was revoked",
        "it ends",
        "hapax-server",
        "a_stream_ends_when_its_key_is_no_longer_good",
    ),
    attack(
        "clients without a certificate where one is needed",
        "no connection",
        "hapax-server",
        "with_an_authority_of_clients_only_its_certificates_are_let_in",
    ),
    // Ways out.
    attack(
        "private addresses, however they are spelled",
        "nothing is sent",
        "hapax-outgoing",
        "by_default_nothing_private_is_called_however_it_is_spelled",
    ),
    attack(
        "names that change their address",
        "nothing is sent",
        "hapax-outgoing",
        "a_name_that_changes_its_mind_gains_nothing",
    ),
    attack(
        "hosts and path segments from data",
        "refused",
        "hapax-documents",
        "a_host_that_data_would_choose_is_refused_unless_the_document_allows_it",
    ),
    attack(
        "a secret sent to another host",
        "nothing is sent",
        "hapax-documents",
        "a_bound_secret_is_sent_to_its_destinations_alone",
    ),
    attack(
        "events in clear text",
        "refused unless the operator opened the place",
        "hapax-server",
        "a_plain_http_address_is_refused_unless_the_operator_opened_the_destination",
    ),
    attack(
        "tables and columns of others",
        "422",
        "hapax-server",
        "a_table_is_used_only_where_the_operator_allowed_it",
    ),
    // Webhooks.
    attack(
        "forged webhooks",
        "one 401 for all, nothing stored",
        "hapax-server",
        "unverified_webhooks_get_one_response_and_are_not_stored",
    ),
    attack(
        "webhooks to an unsigned source by its name",
        "401, nothing stored",
        "hapax-server",
        "an_unsigned_source_is_reached_by_its_id_and_not_by_its_name",
    ),
    attack(
        "secrets that can be guessed",
        "not used",
        "hapax-webhooks",
        "secrets_that_would_let_anybody_in_are_refused_and_never_shown",
    ),
    // Leaks.
    attack(
        "canaries in every secret and payload",
        "found only where they belong",
        "hapax-server",
        "secrets_and_payloads_are_only_where_they_belong",
    ),
];

pub(crate) fn run(options: &Options) -> Result<()> {
    for Attack { attack, bound, test, .. } in ATTACKS {
        println!("{attack}\n    bound: {bound}\n    test:  {test}");
    }
    if options.list {
        return Ok(());
    }
    ensure!(
        Tool::is_there("cargo-nextest"),
        "the attacks run under cargo-nextest: https://nexte.st; `cargo xtask verify` runs the same tests without it"
    );
    let started = Instant::now();
    let packages: BTreeSet<&str> = ATTACKS.iter().map(|attack| attack.package).collect();
    let packages = packages.iter().flat_map(|package| ["-p", package]);
    let run = Tool::new("cargo")
        .args(["nextest", "run", "--locked", "--no-fail-fast"])
        .args(packages)
        .arg("-E")
        .arg(filter())
        .within(workspace_root());
    match run.run() {
        Ok(()) => {
            println!(
                "<== {} attacks stayed within their bounds, in {}",
                ATTACKS.len(),
                show_elapsed(started.elapsed())
            );
            Ok(())
        }
        Err(error) => bail!("an attack went beyond its bound: {error:#}"),
    }
}

/// The tests of all attacks, for nextest.
fn filter() -> String {
    let one = |attack: &Attack| format!("(package({}) & test(/(^|::){}$/))", attack.package, attack.test);
    ATTACKS.iter().map(one).collect::<Vec<_>>().join(" | ")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn reads(folder: &Path, text: &mut String) {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
                reads(&path, text);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                text.push_str(&std::fs::read_to_string(path).unwrap());
            }
        }
    }

    #[test]
    fn every_attack_is_a_test_of_its_package() {
        for Attack { attack, package, test, .. } in ATTACKS {
            let folder = package.strip_prefix("hapax-").unwrap();
            let mut text = String::new();
            reads(&workspace_root().join("crates").join(folder), &mut text);
            assert!(text.contains(&format!("fn {test}(")), "{attack}: {package} has no test {test}");
        }
    }

    #[test]
    fn no_attack_is_listed_twice() {
        let tests: BTreeSet<&str> = ATTACKS.iter().map(|attack| attack.test).collect();
        assert_eq!(tests.len(), ATTACKS.len());
        assert!(filter().contains("package(hapax-cli) & test(/(^|::)strangers_"));
    }
}
