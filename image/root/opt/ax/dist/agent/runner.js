#!/opt/ax/bin/ax-runner
// The host starts this path, or the link `git-sidecar.js` beside it. Executed directly, or through the image's own
// `node`, it is the binary named above that runs and this text is not read. Only a Node that a derived image put first in
// PATH gets here: it hands over, under the name it was called by (`__filename` would be the link's target).
"use strict";
const program = "/opt/ax/bin/ax-runner";
const script = process.argv[1].replace(/(\.js)?$/, ".js");
const words = ["enter", script, ...process.argv.slice(2)];
if (typeof process.execve === "function") {
  process.execve(program, [program, ...words], process.env);
}
const child = require("node:child_process").spawn(program, words, { stdio: "inherit" });
for (const signal of ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"]) {
  process.on(signal, () => child.kill(signal));
}
child.on("error", (error) => {
  process.stderr.write(`${program}: ${error.message}\n`);
  process.exitCode = 127;
});
child.on("exit", (code, signal) => {
  process.exitCode = signal ? 128 + require("node:os").constants.signals[signal] : code;
});
