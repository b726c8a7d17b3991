//! The contract suite: what every executor has to do, as cases that run on any of them.
//!
//! ```text
//! async fn local() -> Setup { … }
//! skillbox_testkit::executor_contract!(crate::contract::local);
//! ```
//!
//! makes a module for each table below, and in it a test for each row. Every case gets a fresh executor from the factory and an open sandbox
//! in a [`Harness`]. What differs between executors and hosts is decided by the sandbox's own report
//! ([`Isolation`](skillbox_types::Isolation)), never by who runs the tests.
//!
//! # Expected outcomes
//!
//! They were written down from the field reports (F…), the manual pages and the threat list before there was code.
//!
//! **`starting`**
//!
//! | the request | what must come of it |
//! | --- | --- |
//! | `exit 0` … `exit 255` | `Exited` with that code |
//! | ended by a signal (F072) | `Signaled` with number and name; 128 + n for the shell; not a success |
//! | unknown program, by name or path (F141) | `SpawnFailed`, ENOENT, 127; nothing on stdout |
//! | no execute bit; a folder | `SpawnFailed`, EACCES, 126; the message says which it is |
//! | CRLF after `#!` (F039); interpreter missing | `SpawnFailed`, ENOENT; the message names the cause |
//! | neither a program nor a script | `SpawnFailed`, ENOEXEC, 126 |
//! | working directory missing, a file, or led out of the workspace by a link (F049) | `SpawnFailed`; a link that stays inside is followed |
//! | arguments: empty, spaces, line ends, quotes, not ASCII | arrive as they are; more than the kernel takes: E2BIG |
//! | environment (F114) | exactly what was given, and `RUN_DIR`, a folder of the command's own |
//! | no stdin (F084) | `/dev/null`; given bytes arrive whole; who does not read them is not hindered |
//! | descriptors (F086), terminal (F085), signals, umask | 0, 1, 2 and no more; none; defaults; 022 |
//! | a script with a sibling module (F046) | run by its interpreter, no wrapper in between |
//! | the host's folder is below `/tmp` (F111); an empty workspace (F109) | the script runs; nothing but the commands' folders appears |
//!
//! **`ending`**
//!
//! | what happens | what must come of it |
//! | --- | --- |
//! | the time limit passes (F063, F072, F074) | `TimedOut` within limit and grace; output so far kept; the tree dead, wherever it moved to |
//! | a script stops its reaper, or everything it may | timed out all the same, and the sandbox goes on |
//! | a program ends itself within the grace; ignores it; stopped itself; closed its output | not waited longer; killed after it; killed; awaited |
//! | 50 busy processes; a fork bomb | all dead when the answer comes |
//! | a background process holds none, one or both pipes (F065), a process substitution (F064), another session (F067) | the program's own end, at once; what is left is ended and reported |
//! | cancelled before, during (F162); the future dropped | `Cancelled`, tree dead; tree dead |
//! | the sandbox is closed, the executor shut down | `SandboxLost`; later commands answer that error; a new sandbox works |
//!
//! **`output`**: bytes as they were, streams apart (F067), 30 MB with both ends and the exact total (F090, F092), an end for too much only
//! on request (F093); events while it runs and complete, also to a slow listener; time limits hold whoever listens.
//!
//! **`limits`** (F097, F098)
//!
//! | limit | level `full` | level `namespaces` |
//! | --- | --- | --- |
//! | memory, by the program itself | `OomKilled` | its allocations fail (`RLIMIT_DATA`) |
//! | memory, by a child | warning `oom_in_tree` | as above, in the child |
//! | memory, several processes together | as above | **not limited**; each process is |
//! | processes | refused beyond the limit | the same, by `RLIMIT_NPROC` of the sandbox's own user |
//! | file size, CPU time | `LimitExceeded` | the same |
//! | open files, `/tmp`, `/dev/shm` | refused beyond the limit | the same |
//!
//! **`files`**: put, read and collect reach regular files of the workspace alone, follow no link (F119, F120), take any name (F134), keep limits (F126),
//! explain empty results (F123), and judge each file against the command's beginning, even for a rewrite within the clock's grain.
//!
//! **`boundaries`**: no privilege, no file, process, socket or network of the host or of another sandbox (F107, F116, F135); killing everything leaves the sandbox usable.
//!
//! **`stamina`**: 500 exit codes (F139), 16 at once and 8 sandboxes unmixed (F153), 2,000 orphans reaped (F088), descriptors flat over 1,000 commands (F144).

#![allow(missing_docs, reason = "a case's name is its documentation; the tables above say what it expects")]

pub mod boundaries;
pub mod ending;
pub mod files;
#[allow(
    clippy::return_self_not_must_use,
    reason = "they assert; what they return is for those who want more"
)]
mod harness;
pub mod limits;
pub mod output;
pub mod stamina;
pub mod starting;

pub use harness::{Collection, Harness, Keep, Ran, Setup, collect_op};

use std::time::Duration;

use skillbox_types::Limits;

/// How long a case may take before it counts as hanging.
const HANGS: Duration = Duration::from_mins(2);

/// The limits of the cases: small enough to be reached.
fn limits() -> Limits {
    Limits { memory_bytes: 128 << 20, tmp_bytes: 16 << 20, shm_bytes: 8 << 20, ..Limits::default() }
}

/// Runs one case on an executor of its own.
pub async fn run(factory: impl AsyncFnOnce() -> Setup, case: impl AsyncFnOnce(&Harness)) {
    let harness = Harness::open(factory().await, limits()).await;
    tokio::time::timeout(HANGS, case(&harness)).await.expect("the case hangs");
    harness.sandbox().close().await.unwrap();
    harness.executor().shut_down().await;
}

/// Runs one case in a process of its own.
pub async fn run_alone(factory: impl AsyncFnOnce() -> Setup, case: impl AsyncFnOnce(&Harness)) {
    crate::alone(async || run(factory, case).await).await;
}

/// Makes the tests of the contract; takes the path of an async function that answers a [`Setup`].
#[macro_export]
macro_rules! executor_contract {
    ($factory:path) => {
        $crate::contract_cases! { $factory; run;
            starting {
                every_exit_code
                f072_signals_are_named
                f141_an_unknown_program_is_not_started
                a_file_without_execute_bit_is_not_started
                a_folder_is_not_a_program
                f039_windows_line_ends_are_named
                a_missing_interpreter_is_named
                a_file_that_is_no_program_is_named
                a_working_directory_must_exist
                f049_a_working_directory_stays_in_the_workspace
                renames_elsewhere_do_not_hinder_a_working_directory
                arguments_arrive_as_they_are
                arguments_that_are_too_long_are_refused
                f114_the_environment_is_exactly_what_was_given
                each_command_has_a_folder_of_its_own
                f084_stdin_is_dev_null_where_none_is_given
                stdin_arrives_whole
                stdin_that_is_not_read_hinders_nothing
                f086_no_descriptor_is_inherited
                f085_there_is_no_terminal
                a_program_starts_with_defaults
                f046_a_script_is_run_by_its_interpreter_alone
                f111_the_workspace_is_there_wherever_the_host_keeps_it
                f109_setting_up_leaves_nothing_in_the_workspace
                a_workspace_full_of_links_can_be_opened
            }
            ending {
                f074_the_time_limit_is_kept
                f072_output_before_a_timeout_is_kept
                f063_a_timeout_ends_the_whole_tree
                f063_a_timeout_ends_what_moved_to_its_own_session
                a_program_may_end_itself_within_the_grace
                a_program_that_ignores_signals_is_killed_after_the_grace
                a_program_that_stopped_itself_is_ended
                a_script_cannot_stop_what_ends_it
                a_program_that_closed_its_output_is_awaited
                many_busy_processes_die_together
                a_fork_bomb_is_ended
                f065_a_silent_background_process_does_not_delay_the_end
                f064_a_process_substitution_does_not_delay_the_end
                f067_a_child_in_its_own_session_is_found_and_ended
                a_real_time_signal_hides_nothing
                no_warning_where_nothing_was_left
                cancelled_before_it_started
                f162_cancelling_ends_the_whole_tree
                dropping_the_future_ends_the_command
                a_closed_sandbox_is_lost
                an_executor_that_is_shut_down_loses_its_sandboxes
                opening_while_the_executor_is_shut_down_ends
            }
            output {
                streams_are_bytes_and_separate
                nothing_is_nothing
                f067_stderr_may_fill_before_stdout
                f092_thirty_megabytes_keep_both_ends
                f093_too_much_output_ends_a_command_only_on_request
                a_flood_is_ended_at_the_time_limit
                events_arrive_while_the_command_runs
                events_are_the_whole_output
                a_slow_listener_loses_nothing
                the_time_limit_holds_with_a_listener_that_never_listens
                a_listener_that_left_changes_nothing
            }
            limits {
                f098_the_program_runs_out_of_memory
                f098_a_child_runs_out_of_memory
                f098_137_alone_is_not_a_lack_of_memory
                memory_is_limited_in_all
                processes_are_limited
                f097_processes_outside_do_not_count
                the_size_of_a_file_is_limited
                open_files_are_limited
                cpu_time_is_limited
                limits_cannot_be_raised
                no_core_is_dumped
                memory_filesystems_are_limited
                usage_is_measured
            }
            files {
                put_makes_folders_and_modes
                put_follows_no_link
                read_reads_regular_files_alone
                files_are_new_modified_or_untouched
                a_rewrite_of_the_same_size_is_seen_within_the_clock_s_grain
                f120_only_regular_files_are_collected
                f119_no_link_on_the_way_is_followed
                f119_a_link_that_is_swapped_in_is_never_followed
                f134_any_bytes_are_a_name
                f126_limits_of_a_collection
                f123_patterns_that_match_nothing_are_told
                a_terabyte_of_nothing_is_collected_at_once
                a_deep_tree_is_collected_or_told
                f056_scripts_and_files_share_one_root
                file_work_goes_on_while_commands_run
            }
            boundaries {
                the_user_is_nobody_special
                f135_files_belong_to_the_sandbox_s_user
                set_uid_bits_are_refused
                the_system_is_read_only
                files_of_the_host_are_not_there
                the_temporary_folder_is_private
                f107_home_and_temporary_folders_are_usable_and_stay
                processes_of_the_host_are_not_visible
                init_cannot_be_touched
                kill_everything_leaves_the_sandbox_usable
                namespaces_and_mounts_are_refused
                the_loopback_is_the_sandbox_s_own
                f116_the_network_is_not_there
                another_sandbox_is_out_of_reach
            }
            stamina {
                f139_five_hundred_exit_codes
                f153_sixteen_at_once_are_not_mixed_up
                f153_sandboxes_are_not_mixed_up
                f088_orphans_are_reaped
            }
        }
        mod alone {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn f144_descriptors_do_not_grow_in_a_thousand_commands() {
                $crate::contract::run_alone(
                    $factory,
                    $crate::contract::stamina::f144_descriptors_do_not_grow_in_a_thousand_commands,
                )
                .await;
            }
        }
    };
}

/// The part of [`executor_contract!`] that repeats.
#[doc(hidden)]
#[macro_export]
macro_rules! contract_cases {
    ($factory:path; $run:ident; $($module:ident { $($case:ident)* })*) => {
        $(mod $module {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    $crate::contract::$run($factory, $crate::contract::$module::$case).await;
                }
            )*
        })*
    };
}
