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
/// Longest wait for standard input before the clock is looked at.
pub const STDIN_POLL: Duration = Duration::from_millis(50);

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
/// After a failed round of reconnecting, calls fail at once for this long: those that queued behind it would otherwise
/// each wait for a round of their own.
pub const RECONNECT_COOLDOWN: Duration = Duration::from_secs(5);
/// Connect mode: how long a host that has closed the connection may stay away while tools run. Then the turn is stopped: a
/// command of ten minutes must not work for a host that is no more.
pub const HOST_AWAY_MAX: Duration = Duration::from_secs(30);
/// Time for one connect to a Unix socket: a listener whose backlog is full would block for ever.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Listen mode: wait for the host to dial in. It tries for five seconds after at most fifteen (PROTOCOL §3.9); without a
/// limit a container whose host has died waits for ever.
pub const ACCEPT_DEADLINE: Duration = Duration::from_secs(120);
/// Time to read what the host sent before it stopped reading: a reply that is there already must not count as lost.
pub const LINK_DRAIN: Duration = Duration::from_secs(1);
/// A deadline noticed this late says more about our own sleep than about the host's silence.
pub const LATE: Duration = Duration::from_secs(1);
/// A Unix socket's path, without the NUL at its end: the kernel has room for no longer one, and a host's directory that is too
/// deep should be found at once.
pub const SOCKET_PATH_MAX_BYTES: usize = 107;
/// Frames waiting for the writer. More senders than this wait; memory stays bounded when the host stops reading.
pub const SEND_QUEUE_FRAMES: usize = 32;

// --- HTTP (PROTOCOL §4) ----------------------------------------------------------------------------------------------

/// Time for an ordinary call: there are no heartbeats, and slow catalog tools need minutes (PROTOCOL T20).
pub const HTTP_CALL_TIMEOUT: Duration = Duration::from_secs(300);
/// Time to deliver an answer to a host that is away or asks for patience, more than one wait of [`HTTP_RETRY_AFTER_MAX`]; one
/// that is silent has [`ANSWER_TIMEOUT`].
pub const HTTP_ANSWER_PATIENCE: Duration = Duration::from_secs(60);
/// Silence inside a reply's body after which the connection counts as lost.
pub const HTTP_BODY_SILENCE: Duration = Duration::from_secs(30);
/// Idle connections are closed before a Node server does it after 5 s (PROTOCOL §4.1).
pub const HTTP_IDLE: Duration = Duration::from_secs(4);
/// Idle connections kept: parallel tools reuse them.
pub const HTTP_IDLE_CONNECTIONS: usize = 4;
/// Pause before a lost call is repeated: a host that goes away closes its connections and its listener one after the other,
/// and the one repetition must not be spent in between.
pub const HTTP_LOST_PAUSE: Duration = Duration::from_millis(100);
/// Repetitions of a call the host was too busy for (429, 503).
pub const HTTP_BUSY_RETRIES: u32 = 3;
/// Pause before the first of them; doubled each time.
pub const HTTP_BUSY_PAUSE: Duration = Duration::from_millis(500);
/// Longest `Retry-After` that is honoured; more would outlast the turn.
pub const HTTP_RETRY_AFTER_MAX: Duration = Duration::from_secs(30);
/// UTF-16 units of an error body that are passed on.
pub const HTTP_ERROR_BODY_UNITS: usize = 200;
/// Time for one request for work (PROTOCOL §4.3).
pub const WORK_POLL_TIMEOUT: Duration = Duration::from_secs(10);
/// One wait for work; as many empty ones as `AX_MAX_IDLE_POLLS` end the process (PROTOCOL §4.3, §5.1).
pub const WORK_WAIT: Duration = Duration::from_secs(300);
/// Answers of a host that is too busy, or away behind its gateway, in a row before a wait for work ends: with the doubled
/// pauses half a minute, so that a restart of the host does not end its pods.
pub const WORK_BUSY_RETRIES: u32 = 6;
/// Pause between two requests for work while a follow-up is likely, so that a warm turn starts at once.
pub const WORK_PAUSE_WARM: Duration = Duration::from_millis(200);
/// How long after an answer that is.
pub const WORK_WARM: Duration = Duration::from_secs(60);
/// Pause between two requests for work otherwise (PROTOCOL §4.3).
pub const WORK_PAUSE: Duration = Duration::from_secs(2);
/// Request ids remembered: the host queues the same work again after a timeout (PROTOCOL T17).
pub const REQUEST_IDS_REMEMBERED: usize = 256;

// --- the Anthropic transport (PROTOCOL §11.2) -------------------------------------------------------------------------

/// Largest request body the host's credential proxy takes (PROTOCOL §11.2, §14).
pub const ANTHROPIC_BODY_MAX_BYTES: usize = 4_194_304;
/// The same of the host's proxy over HTTP (PROTOCOL §4.6).
pub const ANTHROPIC_HTTP_BODY_MAX_BYTES: usize = 10_485_760;
/// Longest line of an event stream. A line without an end would otherwise be collected until memory is gone.
pub const SSE_LINE_MAX_BYTES: usize = 8 * 1024 * 1024;
/// Largest event, and all events of one reply together.
pub const SSE_REPLY_MAX_BYTES: usize = 64 * 1024 * 1024;
/// Times a reply that broke off, or that the service was too busy for, is asked for again.
pub const ANTHROPIC_RETRIES: u32 = 2;
/// Times a reply that only paused is continued.
pub const ANTHROPIC_PAUSES_MAX: u32 = 3;

// --- the turn (PROTOCOL §6) ------------------------------------------------------------------------------------------

/// `maxTokens` when the command line gives none (PROTOCOL §1.1).
pub const MAX_TOKENS_DEFAULT: u32 = 8192;
/// Largest `maxTokens` the host takes (PROTOCOL §14).
pub const MAX_TOKENS_MAX: u32 = 200_000;
/// Model id when the command line gives none; the host ignores it (PROTOCOL §1.1, §6.1).
pub const MODEL_DEFAULT: &str = "claude-sonnet-4-5-20250929";
/// Tool calls that run in one turn (PROTOCOL §6.7), if need be all at once: a command takes four descriptors of the runner
/// and two processes, so that fifty fit a container with 256 of each.
pub const TOOL_CALLS_MAX: usize = 50;
/// Model calls in one turn. Every one but the last has at least one tool call, so a turn that ends by itself stays under
/// it; a model that answers every refusal with another call does not.
pub const LLM_ROUNDS_MAX: usize = TOOL_CALLS_MAX + 20;
/// Pieces of text on their way to stdout: each round says at most two, and the runner four more.
pub const ANSWER_PIECES: usize = 2 * LLM_ROUNDS_MAX + 4;
/// Consecutive failures after which a forwarded tool is refused for the rest of the turn (PROTOCOL §6.7).
pub const BREAKER_FAILURES: u32 = 3;
/// Times a malformed model reply is asked for again before the turn ends with an error.
pub const LLM_MALFORMED_RETRIES: u32 = 1;
/// Time pending reports get before the model is asked again: a host takes a millisecond, and one that is slow must not hold up the turn.
pub const REPORT_SETTLE: Duration = Duration::from_millis(200);
/// Time the last report gets before the answer is sent without it. A model's round is longer, so a host that leaves reports
/// unanswered seldom holds up an answer.
pub const REPORT_FLUSH: Duration = Duration::from_secs(2);
/// The same when the turn was cancelled: the process has to end within [`SHUTDOWN`].
pub const REPORT_FLUSH_STOPPED: Duration = Duration::from_millis(300);
/// Reports under way at once; the tools wait beyond it instead of piling them up.
pub const REPORTS_PENDING_MAX: usize = 64;

/// UTF-16 units of an inline image's or file's base64 (PROTOCOL §14).
pub const MEDIA_MAX_UNITS: usize = 20_000_000;
/// UTF-16 units of a file's type (PROTOCOL §14).
pub const MIME_TYPE_MAX_UNITS: usize = 128;
/// UTF-16 units of a file's name (PROTOCOL §14).
pub const FILENAME_MAX_UNITS: usize = 512;
/// Bytes of a conversation without its media: about 150,000 tokens, which leaves a 200,000 token model room for the prompt,
/// the tools and an answer. More, and the provider refuses the request.
pub const CONVERSATION_MAX_BYTES: usize = 600_000;
/// Bytes media leave to the conversation; an image that would take them is replaced by a note.
pub const CONVERSATION_MIN_BYTES: usize = 256 * 1024;
/// Notes about attachments that were left out; a thousand of them must not take the room of the conversation.
pub const ATTACHMENT_NOTES_MAX: usize = 20;
/// UTF-16 units of such a note about one attachment: a name may have been made to look like more than one.
pub const ATTACHMENT_NOTE_MAX_UNITS: usize = 200;
/// Bytes of a request kept free for the JSON between the messages.
pub const REQUEST_SLACK_BYTES: usize = 4096;
/// UTF-16 units kept of an earlier round's result when room is needed, from its beginning and its end.
pub const SHORTENED_RESULT_UNITS: usize = 1000;
/// UTF-16 units an argument of an earlier call may have when room is needed.
pub const SHORTENED_ARGUMENT_UNITS: usize = 400;
/// Turns of history that always stay as they were said (PROTOCOL §6.6).
pub const COMPACT_KEEP_TURNS: usize = 6;
/// Tokens of history from which the older part is summarised: three quarters of the context (PROTOCOL §6.6).
pub const COMPACT_TOKENS: usize = CONTEXT_WINDOW_TOKENS / 4 * 3;
/// Turns of history from which it is, however short they are: the rest of the 200 messages is for this turn's tools.
pub const COMPACT_TURNS: usize = 120;
/// UTF-16 units of one piece of transcript; the host takes 200,000 in a message (PROTOCOL T10).
pub const COMPACT_PIECE_UNITS: usize = 180_000;
/// Bytes of transcript in one summary call, so that it fits the model's context.
pub const COMPACT_CALL_BYTES: usize = 500_000;
/// UTF-16 units of one turn in the transcript: a pasted file must not crowd out what was said about it.
pub const COMPACT_TURN_UNITS: usize = 20_000;
/// Summary calls of one turn; what does not fit them is left out, oldest first.
pub const COMPACT_CALLS_MAX: usize = 4;
/// After which a summary is given up. The user is waiting for the turn itself, and over HTTP the host for three minutes.
pub const COMPACT_TIMEOUT: Duration = Duration::from_secs(60);
/// UTF-16 units kept of a summary.
pub const SUMMARY_MAX_UNITS: usize = 40_000;

// --- bash (PROTOCOL §8.3, DESIGN §4.5) -------------------------------------------------------------------------------

/// Time limit of a command that names none.
pub const BASH_TIMEOUT_DEFAULT: Duration = Duration::from_secs(120);
/// Largest time limit a command may name.
pub const BASH_TIMEOUT_MAX: Duration = Duration::from_secs(600);
/// Pause before a command is tried again for which there was no process: those that are just ending may make room, and then
/// nobody's have to be ended for it.
pub const ROOM_PAUSE: Duration = Duration::from_millis(200);
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
/// Bytes shown of output or a file that is not text: a `cat` of a picture would take the place of a hundred pages.
pub const BINARY_SHOWN_BYTES: usize = 2000;
/// Longest single argument given to `execve`; the kernel refuses 131,072 bytes and more.
pub const ARGUMENT_MAX_BYTES: usize = 120_000;
/// Longest variable, name and value, that the kernel passes to a program: with a longer one no command starts, and the
/// message must say which.
pub const VARIABLE_MAX_BYTES: usize = 131_071;
/// Output read at once: the capacity of a pipe.
pub const PIPE_CHUNK_BYTES: usize = 65_536;
/// Pause after each [`PIPE_CHUNK_BYTES`] of what a background process still prints. It must be read, or the process
/// would stop or die; without a pause one that prints without end would keep the runner busy.
pub const DISCARD_PAUSE: Duration = Duration::from_millis(10);
/// Parents followed upwards to learn whose descendant a process is. A deeper one is found once those above it are gone;
/// without a bound a chain of thousands would make each look at `/proc` quadratic.
pub const PROCESS_DEPTH_MAX: usize = 128;
/// Passes of SIGSTOP before those found are killed. A storm of forks needs several; without a bound a process that
/// wakes its siblings would keep the pass going.
pub const STOP_PASSES_MAX: usize = 16;
/// First and longest pause between two sweeps that kill: short for the usual case, where one sweep is enough.
pub const SWEEP_PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(20)];
/// Time a keeper gets to notice that nothing is left below it before it is ended too.
pub const KEEPER_GRACE: Duration = Duration::from_millis(200);
/// Ended processes a keeper takes before it looks whether it has something to tell.
pub const REAP_BATCH: usize = 64;
/// Looks at an ended child that its owner has not taken yet before the reaper searches behind it.
pub const REAP_CHECKS: usize = 3;
/// Pause between two such looks, and between two looks at a keeper that is just ending.
pub const REAP_PAUSE: Duration = Duration::from_millis(2);

// --- the socket guard (DESIGN §4.11) ---------------------------------------------------------------------------------

/// Threads that stand by for a command's connect. One takes a call and may have to stay with it, one takes the next.
pub const GUARD_THREADS_STANDING: usize = 2;
/// Connects of commands that may wait at once, each with a thread of ours; a container often has 256 processes and threads.
/// Any more end with `EAGAIN` when they do not succeed at once, rather than hold up others.
pub const GUARD_WAITS_MAX: usize = 64;
/// Between two looks at the connects that wait: this late a caller gets its signal, and is the thread of a dead one free.
pub const GUARD_LOOK: Duration = Duration::from_millis(50);
/// The same while one waits that may not.
pub const GUARD_LOOK_CROWDED: Duration = Duration::from_millis(2);
/// Pause between two attempts to have a thread leave a call that was broken off; the first can come before it waits.
pub const GUARD_LEAVE: Duration = Duration::from_millis(2);
/// How often that is tried before the caller's next call is served all the same; one on a dead mount may never leave.
pub const GUARD_LEAVE_TRIES: usize = 100;
/// Answers kept for a caller whose wait a signal has ended; one that died never asks.
pub const GUARD_LOST_MAX: usize = 64;
/// After this long without work a thread beyond the standing ones ends.
pub const GUARD_THREAD_IDLE: Duration = Duration::from_secs(1);
/// How often a path is resolved again because something was renamed meanwhile; a rename storm must not hold a thread.
pub const RESOLVE_TRIES: usize = 1_000;
/// Bytes of a guard thread's stack.
pub const GUARD_STACK_BYTES: usize = 128 * 1024;
/// Time the trial at the start has; a kernel that lets it hang does not have what the guard needs.
pub const GUARD_TRIAL: Duration = Duration::from_secs(3);
/// Refused connects that are logged one by one; a command that tries in a loop must not fill the log.
pub const GUARD_LOGGED_MAX: u64 = 20;

// --- files -----------------------------------------------------------------------------------------------------------

/// Symbolic links followed while one path is resolved; the kernel's own number.
pub const LINKS_FOLLOWED_MAX: usize = 40;
/// Directories opened while one path is resolved; links that go up and down could take minutes otherwise.
pub const PATH_STEPS_MAX: usize = 20_000;
/// Bytes of one file name.
pub const NAME_MAX_BYTES: usize = 255;
/// Largest file `edit_file` opens, since more would not fit the container's memory beside its copies; and how far into a
/// file `read_file` looks for lines.
pub const FILE_MAX_BYTES: u64 = 32 * 1024 * 1024;
/// Bytes of content one `read_file` returns; one file must not fill the conversation.
pub const READ_MAX_BYTES: usize = 100_000;
/// UTF-16 units that content takes in the result's JSON, where a control character grows sixfold; what is missing to
/// [`TOOL_RESULT_MAX_UNITS`] is room for the notes.
pub const READ_MAX_UNITS: usize = TOOL_RESULT_MAX_UNITS - 4_000;

// --- the life (PROTOCOL §1.10–1.12) ----------------------------------------------------------------------------------

/// Empty waits for work before the process ends, when `AX_MAX_IDLE_POLLS` gives no number (PROTOCOL §1.2).
pub const IDLE_POLLS: u32 = 2;
/// Wait for `<workspace>/.ax` (PROTOCOL §1.11).
pub const WORKSPACE_WAIT: Duration = Duration::from_secs(30);
/// Pause between two looks at it (PROTOCOL §1.11).
pub const WORKSPACE_POLL: Duration = Duration::from_millis(200);
/// Signals to stop that are not obeyed since a command sent them. A mistaken `pkill` sends one or two; in a flood the host's
/// own could be lost, so from then on each is obeyed.
pub const SIGNALS_REFUSED_MAX: usize = 16;
/// Longest wait for room on stdout before a signal to stop is looked for, where the event loop itself writes.
pub const STDOUT_POLL: Duration = Duration::from_millis(50);
/// Threads for file work, none of which waits for a command: enough to keep a disk busy, few enough for a small container.
pub const BLOCKING_THREADS: usize = 16;
/// Looks for whether the kernel has forgotten a thread that was started on trial; a loaded machine needs a few.
pub const THREAD_TRIAL_LOOKS: usize = 1000;
/// Descriptors that must be free at the start: enough for the runtime, the link and one command. With fewer the first of
/// them to be missing would decide how the process fails.
pub const DESCRIPTORS_MIN: usize = 24;
/// A limit from which on that is not looked at.
pub const DESCRIPTORS_PLENTY: u64 = 256;
/// The runner raises its own limit of descriptors to this at most: all tunnels and some hundred commands at once need a tenth
/// of it. Under the usual 1,024, or 256, they would take the descriptors that the next command needs.
pub const DESCRIPTORS_MAX: u64 = 65_536;
/// Idle time after which such a thread ends. Long: a thread once made still works when commands have filled the container's
/// process limit and no new one can be had.
pub const BLOCKING_THREAD_IDLE: Duration = Duration::from_secs(3600);
/// From the first SIGTERM to the last wait. The process has to be gone within two seconds (DESIGN §4.12), and what is left
/// after the waits takes its time on a busy node.
pub const SHUTDOWN: Duration = Duration::from_millis(1500);

// --- logs (PROTOCOL §13) ---------------------------------------------------------------------------------------------

/// Lines waiting to be written; more are dropped, since a host that does not read must not stop the turn.
pub const LOG_QUEUE_LINES: usize = 1024;
/// Wait for room on stderr for the last line of a failing process.
pub const LAST_WORDS: Duration = Duration::from_millis(200);

// --- the tool catalogue (PROTOCOL §7, §14) ---------------------------------------------------------------------------

/// Silence after which `bash` is given up where the host runs it (PROTOCOL §7).
pub const BASH_FORWARDED_TIMEOUT: Duration = Duration::from_secs(180);
/// Bytes of a catalog tool's result that go to a file, when the payload does not say (PROTOCOL §7.2).
pub const SPILL_THRESHOLD_BYTES: u64 = 20_480;
/// Where they go: inside the workspace, since `read_file` and `grep` reach nothing else.
pub const SPILL_DIRECTORY: &str = ".ax/tmp";
/// Tools in one `llm_call` (PROTOCOL §14).
pub const LLM_TOOLS_MAX: usize = 200;
/// UTF-16 units of a tool's description (PROTOCOL §14).
pub const TOOL_DESCRIPTION_MAX_UNITS: usize = 10_000;
/// Characters of a tool name that every model provider accepts; the host's own limit is wider.
pub const TOOL_NAME_PROVIDER_MAX: usize = 64;
/// Catalog entries offered as tools of their own: fifteen of the host's number are the runner's.
pub const DIRECT_TOOLS_MAX: usize = LLM_TOOLS_MAX - 15;
/// Bytes of JSON these may take, so that a large catalog does not fill the HTTP body before the conversation does.
pub const DIRECT_TOOLS_MAX_BYTES: usize = 256 * 1024;

// --- search (PROTOCOL §7, §8.3) --------------------------------------------------------------------------------------

/// UTF-16 units of a search pattern (PROTOCOL §14).
pub const GREP_PATTERN_MAX_UNITS: usize = 10_000;
/// Lines of context around a match (PROTOCOL §14).
pub const GREP_CONTEXT_MAX_LINES: usize = 20;
/// Results one search may ask for (PROTOCOL §14).
pub const SEARCH_RESULTS_MAX: usize = 10_000;
/// Time for one search; then what was found so far is returned and said to be incomplete.
pub const SEARCH_TIMEOUT: Duration = Duration::from_secs(20);
/// Results of a search that names no number (PROTOCOL §8.3).
pub const SEARCH_RESULTS_DEFAULT: usize = 100;
/// Directory levels a walk goes down: a loop of `mkdir` makes trees whose paths alone would fill the memory.
pub const WALK_DEPTH_MAX: usize = 256;
/// Directory handles one thread keeps open along its path.
pub const WALK_HANDLES_MAX: usize = 32;
/// Bytes of paths one walk collects: about half a million files, within a 256 MiB container.
pub const WALK_PATHS_MAX_BYTES: usize = 48 * 1024 * 1024;
/// Bytes read of a `.gitignore`; what is beyond does not count, and that is said.
pub const GITIGNORE_MAX_BYTES: u64 = 1024 * 1024;
/// Rules that hold in one directory, from its own file and those above: each takes about 2 KiB of memory.
pub const GITIGNORE_MAX_RULES: usize = 32 * 1024;
/// Bytes of these that may have wildcards: such rules become an automaton, which takes far more.
pub const GITIGNORE_WILD_MAX_BYTES: usize = 64 * 1024;
/// Longest line searched, per thread: a file with a longer one is searched up to it, and that is said.
pub const GREP_HEAP_MAX_BYTES: usize = 16 * 1024 * 1024;
/// Compiled size of a search pattern: `(a{1000}){1000}` is refused instead of filling the memory.
pub const GREP_REGEX_MAX_BYTES: usize = 10 * 1024 * 1024;
/// Bytes shown of one line: a match in a minified file must not flood the result.
pub const GREP_LINE_MAX_BYTES: usize = 400;
/// UTF-16 units shown of a path in a note that is too long to be given to a tool.
pub const NOTE_PATH_MAX_UNITS: usize = 200;
/// UTF-16 units of a search's result as JSON, well below [`TOOL_RESULT_MAX_UNITS`]: more than this is not read with care.
pub const SEARCH_OUTPUT_MAX_UNITS: usize = 100_000;
/// Bytes from a file's start in which a NUL says that it is not text.
pub const BINARY_PROBE_BYTES: usize = 8 * 1024;

// --- skills and prompt (PROTOCOL §9, §10) ----------------------------------------------------------------------------

/// Bytes of a SKILL.md's frontmatter. A YAML parser is not given more: anchors make small documents large.
pub const FRONTMATTER_MAX_BYTES: usize = 64 * 1024;
/// UTF-16 units of a name inside a line of the prompt: the agent's, a skill's, a parameter's.
pub const PROMPT_NAME_MAX_UNITS: usize = 200;
/// UTF-16 units of a description inside a line of the prompt: one that is megabytes long would push out all the others.
pub const PROMPT_SUMMARY_MAX_UNITS: usize = 2000;
/// Values in a frontmatter with its anchors written out. A document without anchors cannot have so many.
pub const FRONTMATTER_VALUES_MAX: usize = 64 * 1024;
/// Levels of a frontmatter; the rules know four. Values are compared and freed level by level on the stack.
pub const FRONTMATTER_DEPTH_MAX: usize = 64;
/// Tokens of the model's context as the prompt's budget counts (PROTOCOL §10.1).
pub const CONTEXT_WINDOW_TOKENS: usize = 200_000;
/// Tokens the prompt leaves for the model's answer (PROTOCOL §10.3).
pub const PROMPT_OUTPUT_RESERVE_TOKENS: usize = 4096;
/// Characters that count as one token in every estimate (PROTOCOL §10.3).
pub const CHARS_PER_TOKEN: usize = 4;

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
/// Directories below one another that are looked through for pipes git would open: each costs a descriptor meanwhile.
pub const GIT_WALK_DEPTH_MAX: usize = 200;
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

/// Largest policy file; a larger one is a mistaken path.
pub const POLICY_MAX_BYTES: u64 = 1024 * 1024;
/// Destinations in one policy; more cannot be reviewed by anybody.
pub const POLICY_DESTINATIONS_MAX: usize = 256;
/// Addresses all names of a policy may resolve to; a hostile zone could otherwise fill the rule set.
pub const POLICY_ADDRESSES_MAX: usize = 1024;
/// Time for resolving the names of a policy. Set-up as a whole has to end within ten seconds.
pub const RESOLVE_DEADLINE: Duration = Duration::from_secs(4);
/// A name server that has said nothing for so long is not waited for alone.
pub const RESOLVE_NEXT_SERVER: Duration = Duration::from_millis(800);
/// Time one IP version gets once the other has answered: some servers never answer for IPv6.
pub const RESOLVE_OTHER: Duration = Duration::from_millis(500);
/// Time for one run of `nft`; one that hangs must not hold the container between started and closed.
pub const NFT_DEADLINE: Duration = Duration::from_secs(4);
/// Time for all of closing the network. Steps that are each slow but in time must not add up to a start that hangs.
pub const ENFORCE_DEADLINE: Duration = Duration::from_secs(8);
/// Output kept from one run of `nft`.
pub const NFT_OUTPUT_MAX_BYTES: usize = 4 * 1024 * 1024;
/// Time for one probe of a destination that must be refused. A refusal is immediate; silence counts as closed.
pub const PROBE_DEADLINE: Duration = Duration::from_millis(500);
/// Time `doctor` gives one connection to the host or the proxy; a backlog that is full must not hang a health check.
pub const DOCTOR_CONNECT_DEADLINE: Duration = Duration::from_secs(1);
/// As PID 1, from the first forwarded signal to the final one.
pub const INIT_GRACE: Duration = Duration::from_millis(1500);
/// Read of `/etc/hosts` before a line is added; what is larger is no hosts file.
pub const HOSTS_FILE_MAX_BYTES: u64 = 16 * 1024 * 1024;
/// Largest environment file.
pub const ENV_FILE_MAX_BYTES: u64 = 1024 * 1024;
/// Files copied into a home directory; a seed with more is a mistaken path.
pub const SEED_FILES_MAX: usize = 2000;
/// Largest file copied into a home directory.
pub const SEED_FILE_MAX_BYTES: u64 = 4 * 1024 * 1024;

// --- the development host --------------------------------------------------------------------------------------------
