//! Every cap, timeout and retry count, in one place.
//!
//! The unit is in the name; the doc says which failure the number prevents. Numbers marked with a section are the
//! host's (PROTOCOL) and not ours to choose.

use std::time::Duration;

// --- frames and bodies (PROTOCOL §3.1, §4.1) -------------------------------------------------------------------------

/// Largest frame the host reads; one byte more and it drops the connection without a reply (PROTOCOL §3.1).
pub const FRAME_SEND_MAX_BYTES: usize = 10_000_000;
/// Largest frame we read. The host sets no bound on replies; without one a wrong length prefix would have us
/// allocate gigabytes.
pub const FRAME_RECEIVE_MAX_BYTES: usize = 64 * 1024 * 1024;
/// Largest HTTP request body the host accepts (PROTOCOL §4.1).
pub const HTTP_BODY_MAX_BYTES: usize = 1_048_576;
/// Largest HTTP reply body we read, for the same reason as [`FRAME_RECEIVE_MAX_BYTES`].
pub const HTTP_REPLY_MAX_BYTES: usize = 64 * 1024 * 1024;

// --- the payload (PROTOCOL §2) ---------------------------------------------------------------------------------------

/// Largest payload we read. A host inlines uploads of at most 20 MB each; more than this is a fault, and reading it
/// would exhaust a 256 MiB container.
pub const PAYLOAD_MAX_BYTES: usize = 64 * 1024 * 1024;
/// A complete JSON payload followed by this much silence is taken as whole, so that a host that forgets to close the
/// pipe does not hang the turn.
pub const PAYLOAD_QUIET: Duration = Duration::from_secs(1);
/// No end of input and no complete payload within this time ends the start with an error.
pub const PAYLOAD_DEADLINE: Duration = Duration::from_secs(120);

// --- host limits on fields (PROTOCOL §14) ----------------------------------------------------------------------------

/// Messages in one `llm_call` (PROTOCOL §14).
pub const LLM_MESSAGES_MAX: usize = 200;
/// UTF-16 units of one message's string content or one text block, and of the system prompt (PROTOCOL §14).
pub const MESSAGE_MAX_UNITS: usize = 200_000;
/// UTF-16 units of one tool result block as the host takes it (PROTOCOL §14).
pub const TOOL_RESULT_HOST_MAX_UNITS: usize = 250_000;
/// UTF-16 units of a tool result before the cut with its suffix (PROTOCOL §6.3).
pub const TOOL_RESULT_MAX_UNITS: usize = 200_000;
/// UTF-16 units of `model` (PROTOCOL §14).
pub const MODEL_MAX_UNITS: usize = 128;
/// UTF-16 units of a tool call's id and of its name (PROTOCOL §14).
pub const TOOL_ID_MAX_UNITS: usize = 200;
/// UTF-16 units of a shell command (PROTOCOL §14).
pub const COMMAND_MAX_UNITS: usize = 100_000;
/// UTF-16 units of a path (PROTOCOL §14).
pub const PATH_MAX_UNITS: usize = 1024;
/// UTF-16 units of written content, old and new strings, and reported output (PROTOCOL §14).
pub const CONTENT_MAX_UNITS: usize = 500_000;
/// UTF-16 units of a reported error (PROTOCOL §14).
pub const ERROR_MAX_UNITS: usize = 10_000;
/// UTF-16 units of an answer (PROTOCOL §14).
pub const ANSWER_MAX_UNITS: usize = 2_000_000;
/// Characters kept of a sender name (PROTOCOL §6.5).
pub const SENDER_MAX_CHARS: usize = 100;

// --- host calls (PROTOCOL §3.6) --------------------------------------------------------------------------------------

/// Silence (no reply, no heartbeat) after which an ordinary call is given up (PROTOCOL §3.6).
pub const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// The same for `llm_call` unless `AX_LLM_TIMEOUT_MS` says otherwise (PROTOCOL §1.2).
pub const LLM_TIMEOUT: Duration = Duration::from_secs(600);
/// The same for `agent_response` (PROTOCOL §3.6).
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// The same for `fetch_work` (PROTOCOL §3.6).
pub const FETCH_WORK_TIMEOUT: Duration = Duration::from_secs(300);
/// The same for the `agent` tool's delegation (PROTOCOL §7).
pub const AGENT_TIMEOUT: Duration = Duration::from_secs(600);
/// Pauses before each attempt to reconnect (PROTOCOL §3.8).
pub const RECONNECT_PAUSES: [Duration; 3] =
    [Duration::from_millis(500), Duration::from_millis(1000), Duration::from_millis(2000)];
/// Time for one connect to a Unix socket: a listener whose backlog is full would block for ever.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Frames waiting for the writer. More senders than this wait; memory stays bounded when the host stops reading.
pub const SEND_QUEUE_FRAMES: usize = 32;

// --- the turn (PROTOCOL §6) ------------------------------------------------------------------------------------------

/// `maxTokens` when the command line gives none (PROTOCOL §1.1).
pub const MAX_TOKENS_DEFAULT: u32 = 8192;
/// Model id when the command line gives none; the host ignores it (PROTOCOL §1.1, §6.1).
pub const MODEL_DEFAULT: &str = "claude-sonnet-4-5-20250929";
/// Tool calls that run in one turn (PROTOCOL §6.7).
pub const TOOL_CALLS_MAX: usize = 50;
/// Consecutive failures after which a forwarded tool is refused for the rest of the turn (PROTOCOL §6.7).
pub const BREAKER_FAILURES: u32 = 3;
/// Tool calls of one reply that run at the same time. All are answered; more than this wait, so that a reply with
/// hundreds of calls cannot exhaust processes or descriptors.
pub const TOOL_CALLS_PARALLEL: usize = 16;
/// Times a malformed model reply is asked for again before the turn ends with an error.
pub const LLM_MALFORMED_RETRIES: u32 = 1;
/// Time pending reports get before the answer is sent without them.
pub const REPORT_FLUSH: Duration = Duration::from_secs(5);
/// Reports under way at once; the tools wait beyond it instead of piling them up.
pub const REPORTS_PENDING_MAX: usize = 64;

// --- bash (PROTOCOL §8.3, DESIGN §4.5) -------------------------------------------------------------------------------

/// Time limit of a command that names none.
pub const BASH_TIMEOUT_DEFAULT: Duration = Duration::from_secs(120);
/// Largest time limit a command may name.
pub const BASH_TIMEOUT_MAX: Duration = Duration::from_secs(600);
/// Time between the polite and the final signal when a command is ended.
pub const KILL_GRACE: Duration = Duration::from_millis(500);
/// Time in which every descendant of an ended command must be gone; then the call returns and says what is left.
pub const KILL_DEADLINE: Duration = Duration::from_secs(2);
/// After the shell has exited: how long a process it left behind may still add to the output (`cmd > >(tee log)`).
pub const DRAIN_GRACE: Duration = Duration::from_millis(50);
/// Output kept from the start of a command's output.
pub const OUTPUT_HEAD_BYTES: usize = 50_000;
/// Output kept from the end of a command's output.
pub const OUTPUT_TAIL_BYTES: usize = 50_000;
/// Longest single argument given to `execve`; the kernel refuses 131,072 bytes and more.
pub const ARGUMENT_MAX_BYTES: usize = 120_000;

// --- files -----------------------------------------------------------------------------------------------------------

/// Symbolic links followed while one path is resolved; the kernel's own number.
pub const LINKS_FOLLOWED_MAX: usize = 40;
/// Bytes of one file name.
pub const NAME_MAX_BYTES: usize = 255;
/// Largest file `read_file` and `edit_file` open; more would not fit the container's memory beside its copy.
pub const FILE_MAX_BYTES: u64 = 32 * 1024 * 1024;
/// Bytes of content one `read_file` returns, so that its JSON stays under [`TOOL_RESULT_MAX_UNITS`].
pub const READ_MAX_BYTES: usize = 100_000;

// --- the life (PROTOCOL §1.10–1.12) ----------------------------------------------------------------------------------

/// Wait for `<workspace>/.ax` (PROTOCOL §1.11).
pub const WORKSPACE_WAIT: Duration = Duration::from_secs(30);
/// Pause between two looks at it (PROTOCOL §1.11).
pub const WORKSPACE_POLL: Duration = Duration::from_millis(200);
/// From the first SIGTERM to the end of the process (DESIGN §4.12).
pub const SHUTDOWN: Duration = Duration::from_millis(1800);

// --- search (PROTOCOL §7, §8.3) --------------------------------------------------------------------------------------

// --- skills and prompt (PROTOCOL §9, §10) ----------------------------------------------------------------------------

// --- web proxy, certificates, credentials (PROTOCOL §11) -------------------------------------------------------------

/// Tunnels through the web proxy bridge at once. One more is told so; without a cap an agent could use up the runner's
/// descriptors and with them its link to the host.
pub const BRIDGE_TUNNELS_MAX: usize = 256;
/// A tunnel in which no byte moves for this long is closed: a peer that vanished would hold its place for ever. Longer
/// than the pauses of event streams and of long polling.
pub const BRIDGE_IDLE: Duration = Duration::from_secs(15 * 60);
/// The same once one side has finished sending: what is left is at most one answer.
pub const BRIDGE_HALF_CLOSED_IDLE: Duration = Duration::from_secs(5 * 60);
/// Bytes one direction of a tunnel holds; memory is at most twice this for each tunnel.
pub const BRIDGE_BUFFER_BYTES: usize = 32 * 1024;
/// Pause before another try when the host's socket has no room in its queue or the runner no free descriptor.
pub const BRIDGE_RETRY_PAUSE: Duration = Duration::from_millis(20);
/// Time for reading the request that is answered with an error. An unread request would turn the close into a reset,
/// and the client would never see the answer.
pub const BRIDGE_REFUSAL: Duration = Duration::from_secs(2);
/// Bytes read of such a request.
pub const BRIDGE_REFUSAL_BYTES: usize = 1024 * 1024;
/// Wait for the tunnels' tasks when the bridge stops.
pub const BRIDGE_STOP: Duration = Duration::from_secs(1);
/// Largest certificate file we read or write; the system's bundle has a quarter of a megabyte.
pub const CA_BUNDLE_MAX_BYTES: u64 = 8 * 1024 * 1024;
/// Shorter values are not searched for in texts: blotting out every `1` would make logs unreadable.
pub const REDACT_MIN_BYTES: usize = 6;

// --- git (PROTOCOL §12) ----------------------------------------------------------------------------------------------

/// Time for one git command (PROTOCOL §12.2): a server that stops answering must not hold the turn.
pub const GIT_DEADLINE: Duration = Duration::from_secs(60);
/// Bytes kept of one git command's output (PROTOCOL §12.2).
pub const GIT_OUTPUT_MAX_BYTES: usize = 10 * 1024 * 1024;
/// UTF-16 units of git's words in an error.
pub const GIT_ERROR_UNITS: usize = 500;
/// Pushes of one turn: after a rejection the remote's new commits are merged and the push repeated, but others may be
/// faster each time.
pub const GIT_PUSHES_MAX: u32 = 3;
/// Bytes read of a file of the workspace's own `.git`, where the agent may have put anything.
pub const GIT_REF_FILE_MAX_BYTES: u64 = 4 * 1024 * 1024;
/// Tries of the sidecar's `/pull` (PROTOCOL §12.3).
pub const SIDECAR_PULL_TRIES: u32 = 10;
/// Pause between them (PROTOCOL §12.3).
pub const SIDECAR_PULL_PAUSE: Duration = Duration::from_millis(500);
/// Time for one `/pull`: a fetch, a reset and a clean, each with its own limit on the other side.
pub const SIDECAR_PULL_DEADLINE: Duration = Duration::from_secs(150);
/// Time for `/turn-complete`. The host's protocol sets none; without one a stuck sidecar would keep the answer from being
/// sent.
pub const SIDECAR_TURN_DEADLINE: Duration = Duration::from_secs(300);
/// Bytes of a sidecar's answer.
pub const SIDECAR_REPLY_MAX_BYTES: usize = 64 * 1024;
/// Connections the sidecar serves at once; the runner needs one, and anybody in the pod can open more.
pub const SIDECAR_CONNECTIONS_MAX: usize = 16;
/// Time for a request to arrive whole at the sidecar.
pub const SIDECAR_REQUEST_DEADLINE: Duration = Duration::from_secs(10);
/// Time a sidecar that is told to end has for the work under way: its repository goes with the pod, so what is not pushed
/// by then is lost. Less than the 30 s a pod has by default.
pub const SIDECAR_FINISH: Duration = Duration::from_secs(20);
/// Time for the host's verdict on a commit.
pub const VALIDATE_DEADLINE: Duration = Duration::from_secs(30);
/// UTF-16 units of the diff in `validate_commit` (PROTOCOL §14).
pub const VALIDATE_DIFF_MAX_UNITS: usize = 262_144;
/// Files in `validate_commit` (PROTOCOL §14).
pub const VALIDATE_FILES_MAX: usize = 50;
/// UTF-16 units of one file's path in it (PROTOCOL §14).
pub const VALIDATE_PATH_MAX_UNITS: usize = 500;
/// UTF-16 units of one file's text in it (PROTOCOL §14).
pub const VALIDATE_CONTENT_MAX_UNITS: usize = 131_072;

// --- the image's entrypoint (DESIGN §5) ------------------------------------------------------------------------------

// --- the development host --------------------------------------------------------------------------------------------
