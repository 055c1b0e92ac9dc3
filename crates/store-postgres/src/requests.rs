//! Requests under their keys: as rows, and within a transaction.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use hapax_engine::model::{
    BeginRequest, Fingerprint, IdempotencyKey, RequestId, RequestRecord, RequestScope, RequestState,
    RequestSummary, StoredAnswer, Timestamp, WriteToken, decide_begin_request,
};
use uuid::Uuid;

use crate::codes::{Code, RequestStatus, millis};
use crate::fault::Fault;
use crate::interned_names::WorkspaceRowId;
use crate::job::Needs;
use crate::rows::{Columns, broken};
use crate::session::{Params, Session, params};

/// Primary key of a request.
pub(crate) type RequestPlace = (RequestScope, IdempotencyKey);

/// Locked requests, with the changes of the transaction; `None` for a missing one.
pub(crate) type KnownRequests = HashMap<RequestPlace, Option<RequestRecord>>;

/// Inserts the new ones among the incoming requests, and locks and reads all foreseen ones.
///
/// All nodes do so in the order of the keys: if two begin one key at once, the second waits for the
/// first, and then finds its request.
pub(crate) async fn prepare(session: &mut Session<'_>, needs: &Needs) -> Result<(), Fault> {
    let mut places: BTreeMap<RequestPlace, Option<&BeginRequest>> = BTreeMap::new();
    places.extend(needs.requests.iter().map(|place| (place.clone(), None)));
    for begin in &needs.begins {
        places.entry((begin.scope.clone(), begin.key.clone())).or_default().get_or_insert(begin);
    }
    if places.is_empty() {
        return Ok(());
    }
    let mut new = NewRequests::default();
    let (mut interned_names, mut workspaces, mut callers, mut keys) = (vec![], vec![], vec![], vec![]);
    for (n, ((scope, key), begin)) in places.iter().enumerate() {
        let Some(workspace) = session.find_workspace(&scope.workspace).await? else { continue };
        interned_names.push(n as i32);
        workspaces.push(workspace.0);
        callers.push(scope.caller.as_str().to_owned());
        keys.push(key.as_str().to_owned());
        if let Some(record) = begin.and_then(|begin| decide_begin_request(None, begin, session.now).write) {
            new.push(workspace, &record)?;
        }
    }
    if !new.workspace.is_empty() {
        session.keep_back(include_str!("../sql/try_requests.sql"), new.into_params());
    }
    let asked = params![interned_names.len() as i64, interned_names, workspaces, callers, keys];
    let found = session.query(include_str!("../sql/lock_requests.sql"), asked).await?;
    let places: Vec<RequestPlace> = places.into_keys().collect();
    session.requests.extend(places.iter().map(|place| (place.clone(), None)));
    for row in &found {
        let mut row = Columns::of(row);
        let place = row.get::<i32>()?;
        let (scope, key) = &places[place as usize];
        let record = request(scope, key, &mut row)?;
        session.requests.insert((scope.clone(), key.clone()), Some(record));
    }
    Ok(())
}

/// Requests that may be new, each column a list with one entry per row.
#[derive(Default)]
struct NewRequests {
    workspace: Vec<i32>,
    caller: Vec<String>,
    key: Vec<String>,
    id: Vec<Uuid>,
    fingerprint: Vec<Vec<u8>>,
    first_seen_at: Vec<i64>,
    status: Vec<i16>,
    token: Vec<i64>,
    until: Vec<i64>,
    method: Vec<String>,
    path: Vec<String>,
    outline: Vec<String>,
}

impl NewRequests {
    fn push(&mut self, workspace: WorkspaceRowId, record: &RequestRecord) -> Result<(), Fault> {
        let (token, until) = hold(record)?;
        self.workspace.push(workspace.0);
        self.caller.push(record.scope.caller.as_str().to_owned());
        self.key.push(record.key.as_str().to_owned());
        self.id.push(Uuid::from_u128(record.id.as_u128()));
        self.fingerprint.push(record.fingerprint.as_bytes().to_vec());
        self.first_seen_at.push(millis(record.first_seen_at));
        self.status.push(RequestStatus::InFlight.code());
        self.token.push(token.get());
        self.until.push(millis(until));
        self.method.push(record.summary.method.clone());
        self.path.push(record.summary.path.clone());
        self.outline.push(outline(record)?);
        Ok(())
    }

    /// In the order of the statement.
    fn into_params(self) -> Params {
        params![
            self.workspace.len() as i64,
            self.workspace,
            self.caller,
            self.key,
            self.id,
            self.fingerprint,
            self.first_seen_at,
            self.status,
            self.token,
            self.until,
            self.method,
            self.path,
            self.outline,
        ]
    }
}

fn hold(record: &RequestRecord) -> Result<(WriteToken, Timestamp), Fault> {
    match record.state {
        RequestState::InFlight { token, until } => Ok((token, until)),
        RequestState::Answered { .. } => {
            Err(Fault::Broken("a request was to be held that is answered".into()))
        }
    }
}

fn outline(record: &RequestRecord) -> Result<String, Fault> {
    serde_json::to_string(&record.summary.outline)
        .map_err(|error| Fault::Refused(format!("an outline cannot be kept: {error}")))
}

/// Writes a request that is being handled, in place of the locked one, if any.
pub(crate) async fn hold_request(
    session: &mut Session<'_>,
    is_there: bool,
    record: RequestRecord,
) -> Result<(), Fault> {
    let workspace = session.get_workspace(&record.scope.workspace).await?;
    if is_there {
        let (token, until) = hold(&record)?;
        let held = params![
            workspace.0,
            record.scope.caller.as_str().to_owned(),
            record.key.as_str().to_owned(),
            Uuid::from_u128(record.id.as_u128()),
            record.fingerprint.as_bytes().to_vec(),
            millis(record.first_seen_at),
            RequestStatus::InFlight.code(),
            token.get(),
            millis(until),
            record.summary.method.clone(),
            record.summary.path.clone(),
            outline(&record)?,
        ];
        session.keep_back(include_str!("../sql/hold_request.sql"), held);
    } else {
        let mut new = NewRequests::default();
        new.push(workspace, &record)?;
        session.write_before_rivals(include_str!("../sql/try_requests.sql"), new.into_params()).await?;
    }
    session.requests.insert((record.scope.clone(), record.key.clone()), Some(record));
    Ok(())
}

/// Writes the answer of a locked request.
pub(crate) async fn answer_request(session: &mut Session<'_>, record: RequestRecord) -> Result<(), Fault> {
    let RequestState::Answered { answer, at, expires_at, free_at } = &record.state else {
        return Err(Fault::Broken("a request was to be answered without an answer".into()));
    };
    let workspace = session.get_workspace(&record.scope.workspace).await?;
    let answered = params![
        workspace.0,
        record.scope.caller.as_str().to_owned(),
        record.key.as_str().to_owned(),
        RequestStatus::Answered.code(),
        millis(*at),
        millis(*expires_at),
        millis(*free_at),
        i32::from(answer.status),
        headers(answer)?,
        answer.body.as_ref().map(|body| body.to_vec()),
    ];
    session.keep_back(include_str!("../sql/answer_request.sql"), answered);
    session.requests.insert((record.scope.clone(), record.key.clone()), Some(record));
    Ok(())
}

/// Writes a request with its answer under a key that has no row. If another transaction is faster, the
/// write fails, and the retry finds the other request.
pub(crate) fn keep_answered(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    record: RequestRecord,
) -> Result<(), Fault> {
    let RequestState::Answered { answer, at, expires_at, free_at } = &record.state else {
        return Err(Fault::Broken("a request was to be kept answered without an answer".into()));
    };
    let kept = params![
        workspace.0,
        record.scope.caller.as_str().to_owned(),
        record.key.as_str().to_owned(),
        Uuid::from_u128(record.id.as_u128()),
        record.fingerprint.as_bytes().to_vec(),
        millis(record.first_seen_at),
        RequestStatus::Answered.code(),
        millis(*at),
        millis(*expires_at),
        millis(*free_at),
        record.summary.method.clone(),
        record.summary.path.clone(),
        outline(&record)?,
        i32::from(answer.status),
        headers(answer)?,
        answer.body.as_ref().map(|body| body.to_vec()),
    ];
    session.keep_back(include_str!("../sql/insert_answered_request.sql"), kept);
    session.requests.insert((record.scope.clone(), record.key.clone()), Some(record));
    Ok(())
}

fn headers(answer: &StoredAnswer) -> Result<String, Fault> {
    serde_json::to_string(&answer.headers)
        .map_err(|error| Fault::Refused(format!("headers cannot be kept: {error}")))
}

/// Deletes a locked request.
pub(crate) async fn delete_request(session: &mut Session<'_>, place: RequestPlace) -> Result<(), Fault> {
    let (scope, key) = &place;
    let workspace = session.get_workspace(&scope.workspace).await?;
    let gone = params![workspace.0, scope.caller.as_str().to_owned(), key.as_str().to_owned()];
    session.keep_back(include_str!("../sql/delete_request.sql"), gone);
    session.requests.insert(place, None);
    Ok(())
}

/// A request, from the current column on.
pub(crate) fn request(
    scope: &RequestScope,
    key: &IdempotencyKey,
    row: &mut Columns<'_>,
) -> Result<RequestRecord, Fault> {
    Ok(RequestRecord {
        scope: scope.clone(),
        key: key.clone(),
        id: RequestId::from_u128(row.get::<Uuid>()?.as_u128()),
        fingerprint: Fingerprint::from_bytes(row.get::<&[u8]>()?.try_into().map_err(broken)?),
        summary: RequestSummary {
            method: row.get()?,
            path: row.get()?,
            outline: serde_json::from_str(row.text()?).map_err(broken)?,
        },
        first_seen_at: row.at()?,
        state: state(row)?,
    })
}

fn state(row: &mut Columns<'_>) -> Result<RequestState, Fault> {
    let status: RequestStatus = row.code()?;
    let (token, until) = (row.get::<Option<i64>>()?, row.maybe_at()?);
    let (at, expires_at, free_at) = (row.maybe_at()?, row.maybe_at()?, row.maybe_at()?);
    let instant = |at: Option<Timestamp>| at.ok_or_else(|| broken("a request without its instant"));
    match status {
        RequestStatus::InFlight => {
            let token = token.ok_or_else(|| broken("a request that nobody holds"))?;
            Ok(RequestState::InFlight { token: WriteToken::from_stored(token), until: instant(until)? })
        }
        RequestStatus::Answered => Ok(RequestState::Answered {
            answer: answer(row)?,
            at: instant(at)?,
            expires_at: instant(expires_at)?,
            free_at: instant(free_at)?,
        }),
    }
}

fn answer(row: &mut Columns<'_>) -> Result<StoredAnswer, Fault> {
    let status = row.get::<i32>()?.try_into().map_err(broken)?;
    let headers = serde_json::from_str(row.text()?).map_err(broken)?;
    let body = row.get::<Option<&[u8]>>()?.map(Arc::from);
    Ok(StoredAnswer { status, headers, body })
}
