//! A runner in listen mode: one process, as many turns as are wanted.

use crate::Outcome;
use crate::host::Wire;
use crate::place::{Place, Process, Programs, payload};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A runner between turns or inside one.
pub(crate) struct Session {
    process: Process,
    wire: Wire,
    /// The `llm_call` or `fetch_work` that waits for its reply.
    waiting: String,
    in_turn: bool,
    calls: usize,
}

/// Calls in one turn; the runner refuses more than 50.
const CALLS_IN_TURN: usize = 40;

/// One tool call.
pub(crate) struct Call {
    /// From the model's reply that asks for it to the next `llm_call`, which carries its result.
    pub(crate) round: Duration,
    /// From the approval to the report; `None` when the runner does not carry the tool out itself.
    pub(crate) work: Option<Duration>,
}

impl Session {
    /// Starts a runner, which then waits for the model in its first turn.
    pub(crate) fn start(place: &Place, programs: &Programs) -> Outcome<Self> {
        let mut command = place.runner(programs)?;
        command.env("AX_IPC_LISTEN", "1");
        let process = Process::start(command, &payload("apple")?)?;
        let wire = Wire::dial(&place.socket())?;
        let mut session = Self { process, wire, waiting: String::new(), in_turn: true, calls: 0 };
        session.waiting = session.next("llm_call")?;
        Ok(session)
    }

    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    /// One call in the turn under way, or in a new one.
    pub(crate) fn call(&mut self, name: &str, args: &Value) -> Outcome<Call> {
        if self.calls == CALLS_IN_TURN {
            self.end_turn()?;
        }
        if !self.in_turn {
            self.begin_turn()?;
        }
        self.calls += 1;
        let tool = json!({"type": "tool_use", "toolCall": {"id": "tu", "name": name, "args": args}});
        let fields = format!(r#""ok":true,"chunks":[{tool},{{"type":"done"}}]"#);
        let start = Instant::now();
        self.wire.reply(&self.waiting, &fields)?;
        let (mut approved, mut reported, mut next) = (None, None, None);
        // The report may come after the next `llm_call`: nobody waits for it.
        while next.is_none() || (approved.is_some() && reported.is_none()) {
            let request = self.wire.receive()?;
            match request.action.as_str() {
                "sandbox_approve" => {
                    approved = Some(Instant::now());
                    self.wire.reply(&request.id, r#""ok":true,"approved":true"#)?;
                }
                "sandbox_result" => {
                    let body = self.wire.body();
                    if contains(body, br#""success":false"#) || contains(body, br#""exitCode":1"#) {
                        return Err(format!("{name} failed: {}", String::from_utf8_lossy(body)).into());
                    }
                    reported = Some(request.at);
                    self.wire.reply(&request.id, r#""ok":true"#)?;
                }
                "llm_call" => {
                    self.waiting = request.id;
                    next = Some(request.at);
                }
                _ => self.wire.reply(&request.id, r#""ok":true"#)?,
            }
        }
        let round = next.map_or(Duration::ZERO, |at| at - start);
        Ok(Call { round, work: approved.zip(reported).map(|(from, to)| to - from) })
    }

    /// One call in a turn of its own, so that no earlier result travels with it.
    pub(crate) fn single(&mut self, name: &str, args: &Value) -> Outcome<Call> {
        let call = self.call(name, args)?;
        self.end_turn()?;
        Ok(call)
    }

    /// Lets the model finish, takes the answer, and leaves the runner waiting for work.
    pub(crate) fn end_turn(&mut self) -> Outcome<()> {
        self.wire.reply(&self.waiting, r#""ok":true,"chunks":[{"type":"text","content":"Done."},{"type":"done"}]"#)?;
        self.next("agent_response")?;
        // The bridge acknowledges an answer without an id (PROTOCOL T5).
        self.wire.send(br#"{"ok":true}"#)?;
        self.waiting = self.next("fetch_work")?;
        (self.in_turn, self.calls) = (false, 0);
        Ok(())
    }

    fn begin_turn(&mut self) -> Outcome<()> {
        let fields = format!(r#""ok":true,"payload":{}"#, Value::from(payload("apple")?));
        self.wire.reply(&self.waiting, &fields)?;
        self.waiting = self.next("llm_call")?;
        self.in_turn = true;
        Ok(())
    }

    /// The id of the next request, which must be this action.
    fn next(&mut self, action: &str) -> Outcome<String> {
        let request = self.wire.receive()?;
        match request.action == action {
            true => Ok(request.id),
            false => Err(format!("the runner sent {} instead of {action}", request.action).into()),
        }
    }
}

fn contains(text: &[u8], piece: &[u8]) -> bool {
    memchr::memmem::find(text, piece).is_some()
}
