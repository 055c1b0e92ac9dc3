//! Programs and servers that are killed in the middle.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hapax::{Ctx, Error, Failure, Hapax, Result, RetryPolicy, RunStatus, seconds};
use serde::{Deserialize, Serialize};

use super::server::TestServer;

/// Longest time that anything in these tests may take.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Serialize, Deserialize)]
struct Job {
    folder: PathBuf,
}

/// Adds a line to a file; returns how many it has.
fn note(folder: &Path, file: &str) -> usize {
    use std::io::Write;
    let path = folder.join(file);
    let mut notes = std::fs::OpenOptions::new().create(true).append(true).open(&path).unwrap();
    writeln!(notes, "x").unwrap();
    std::fs::read_to_string(path).unwrap().lines().count()
}

fn count(folder: &Path, file: &str) -> usize {
    std::fs::read_to_string(folder.join(file)).map_or(0, |notes| notes.lines().count())
}

async fn until_noted(folder: &Path, file: &str) {
    let began = Instant::now();
    while count(folder, file) == 0 {
        assert!(began.elapsed() < PATIENCE, "{file} was never noted");
        tokio::task::yield_now().await;
    }
}

/// Three steps: one that is done, one that hangs the first time, and one behind it.
async fn hang(ctx: Ctx, job: Job) -> Result<usize> {
    let soon = RetryPolicy::default().first_wait(Duration::from_millis(5));
    let folder = &job.folder;
    ctx.step("before", |_| async { Ok::<_, Failure>(note(folder, "before")) }).await?;
    let tries = ctx
        .step("hangs", |_| async {
            match note(folder, "hangs") {
                1 => std::future::pending().await,
                tries => Ok::<_, Failure>(tries),
            }
        })
        .retry(soon)
        .await?;
    ctx.step("behind", |_| async { Ok::<_, Failure>(note(folder, "behind")) }).await?;
    Ok(tries)
}

/// A wire that hangs. It must not happen twice.
async fn wire(ctx: Ctx, job: Job) -> Result<String> {
    let folder = &job.folder;
    ctx.step("wire", |_| async {
        note(folder, "wire");
        std::future::pending::<Result<String>>().await
    })
    .claimed()
    .await
}

fn register(hapax: &Hapax) {
    hapax.register("hang", hang).unwrap();
    hapax.register("wire", wire).unwrap();
}

/// The program that is killed. Not a test of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn remote_program_process() {
    let Ok(url) = std::env::var("HAPAX_TEST_SERVER") else { return };
    // It works as long as this value lives.
    let hapax = Hapax::open(&url).await.unwrap();
    register(&hapax);
    std::future::pending::<()>().await;
}

fn program(server: &TestServer) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "same_program::kills::remote_program_process", "--nocapture"]);
    command.env("HAPAX_TEST_SERVER", &server.url).env("HAPAX_API_KEY", &server.key);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Waits until a program has registered its workflows.
async fn start(hapax: &Hapax, workflow: &str, job: &Job) -> hapax::RunHandle {
    let began = Instant::now();
    loop {
        match hapax.start(workflow, job).await {
            Ok(run) => return run,
            Err(Error::UnknownWorkflow(_)) => {
                assert!(began.elapsed() < PATIENCE, "nobody registers {workflow}")
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_program_goes_on_where_a_killed_one_was_and_a_claimed_effect_is_in_doubt() {
    let server = TestServer::start();
    let job = Job { folder: server.folder() };
    let mut killed = program(&server);
    let caller = server.open().await;
    let hanging = start(&caller, "hang", &job).await;
    let wiring = start(&caller, "wire", &job).await;
    until_noted(&job.folder, "hangs").await;
    until_noted(&job.folder, "wire").await;
    killed.kill().unwrap();
    killed.wait().unwrap();

    let second = server.open().await;
    register(&second);
    assert_eq!(hanging.result::<usize>().await.unwrap(), 2, "the step that was cut off runs again");
    assert_eq!((count(&job.folder, "before"), count(&job.folder, "behind")), (1, 1));
    let began = Instant::now();
    let doubt = loop {
        match caller.list_doubts(1).await.unwrap().pop() {
            Some(doubt) => break doubt,
            None => assert!(began.elapsed() < PATIENCE, "there is no doubt"),
        }
    };
    assert_eq!((doubt.run, doubt.step.as_str()), (wiring.id(), "wire"));
    let ruling = hapax::Ruling {
        resolution: hapax::Resolution::Happened { output: "W-1".into() },
        by: hapax::Actor::new("ada", hapax::Role::Manager),
        seconded_by: None,
        reason: "seen at the bank".into(),
    };
    caller.resolve_doubt(&doubt.as_seen(), ruling).await.unwrap();
    assert_eq!(wiring.result::<String>().await.unwrap(), "W-1");
    assert_eq!(count(&job.folder, "wire"), 1, "a claimed effect never happens twice by itself");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_goes_on_by_itself_when_its_server_comes_back() {
    let mut server = TestServer::start();
    let job = Job { folder: server.folder() };
    let hapax = server.open().await;
    register(&hapax);
    let run = hapax.start("hang", &job).await.unwrap();
    until_noted(&job.folder, "hangs").await;
    server.kill();
    let waiting = tokio::spawn(async move { run.result::<usize>().await });
    server.restart();
    assert_eq!(waiting.await.unwrap().unwrap(), 2);
    assert_eq!((count(&job.folder, "before"), count(&job.folder, "behind")), (1, 1));
    hapax.shutdown(seconds(10)).await.unwrap();
}

/// Asks for a step that the history does not have.
async fn changed(ctx: Ctx, job: Job) -> Result<usize> {
    ctx.step("another", |_| async { Ok::<_, Failure>(note(&job.folder, "another")) }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn code_that_does_not_fit_the_history_pauses_the_run_and_the_right_code_goes_on() {
    let server = TestServer::start();
    let job = Job { folder: server.folder() };
    let first = server.open().await;
    first.register("hang", hang).unwrap();
    let run = first.start("hang", &job).await.unwrap();
    until_noted(&job.folder, "hangs").await;
    first.kill();

    let second = server.open().await;
    second.register("hang", changed).unwrap();
    let began = Instant::now();
    let run = second.run(run.id()).await.unwrap();
    while run.status().await.unwrap() != RunStatus::Paused {
        assert!(began.elapsed() < PATIENCE, "{:?}", run.status().await);
    }
    assert_eq!(count(&job.folder, "another"), 0, "nothing happens before the history fits");
    second.shutdown(seconds(10)).await.unwrap();

    let third = server.open().await;
    third.register("hang", hang).unwrap();
    third.ready().await.unwrap();
    let run = third.run(run.id()).await.unwrap();
    run.resume().await.unwrap();
    assert_eq!(run.result::<usize>().await.unwrap(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_shuts_down_finishes_its_attempts_and_gives_its_runs_back() {
    let server = TestServer::start();
    let job = Job { folder: server.folder() };
    let first = server.open().await;
    let (entered, mut is_entered) = tokio::sync::mpsc::channel::<()>(1);
    let (finish, may_finish) = tokio::sync::watch::channel(false);
    let slow = move |ctx: Ctx, job: Job| {
        let (entered, may_finish) = (entered.clone(), may_finish.clone());
        async move {
            ctx.step("slow", |_| {
                let (entered, mut may_finish) = (entered.clone(), may_finish.clone());
                let tries = note(&job.folder, "slow");
                async move {
                    let _ = entered.send(()).await;
                    let _ = may_finish.wait_for(|may| *may).await;
                    Ok::<_, Failure>(tries)
                }
            })
            .await?;
            ctx.signal::<usize>("go").await
        }
    };
    first.register("slow", slow.clone()).unwrap();
    let run = first.start("slow", &job).await.unwrap();
    is_entered.recv().await.unwrap();
    let stopping = tokio::spawn(async move { first.shutdown(seconds(30)).await });
    tokio::task::yield_now().await;
    finish.send(true).unwrap();
    stopping.await.unwrap().unwrap();

    let second = server.open().await;
    second.register("slow", slow).unwrap();
    let run = second.run(run.id()).await.unwrap();
    run.signal("go", &5usize, None).await.unwrap();
    assert_eq!(run.result::<usize>().await.unwrap(), 5);
    assert_eq!(count(&job.folder, "slow"), 1, "the attempt under way was finished, and recorded");
}
