"""What the cache promises, and the tests that show each promise; the table is checked, so that it cannot rot."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROMISES: dict[str, tuple[str, ...]] = {
    "the key covers every input": (
        "core/build/test_runtime::test_each_part_of_the_plan_invalidates_by_itself",
        "core/build/test_runtime::test_the_source_invalidates",
        "core/build/test_runtime::test_the_version_of_plan_files_invalidates_and_one_that_is_not_written_is_refused",
        "flows/test_incremental::test_a_file_beside_the_model_that_holds_a_part_of_it_is_an_input",
    ),
    "versions, plugin sources, compiler and processor are inputs": (
        "core/build/test_runtime::test_a_plugins_version_and_what_it_stands_on_invalidate",
        "core/build/test_runtime::test_the_compiler_and_the_processor_invalidate",
        "core/build/test_runtime::test_the_toolchain_revision_invalidates",
        "flows/test_incremental::test_explain_names_the_one_input_that_changed_with_old_and_new_value",
        "flows/test_other_checkouts::test_an_edited_plugin_is_seen_from_every_checkout",
    ),
    "a step without a version is refused, one with other code warned of": (
        "core/build/test_runtime::test_a_step_without_an_explicit_version_is_refused",
        "core/build/test_runtime::test_a_step_whose_code_changed_under_the_same_version_is_warned_of",
    ),
    "a touch is neither a miss nor a false hit": (
        "flows/test_incremental::test_a_touch_changes_nothing",
        "flows/test_incremental::test_an_edit_within_the_same_tick_and_of_the_same_size_is_seen",
    ),
    "what did not move is not read": (
        "flows/test_incremental::test_a_file_that_did_not_move_is_not_read",
        "flows/test_incremental::test_an_edit_within_the_same_tick_and_of_the_same_size_is_seen",
    ),
    "an edit without meaning does not recompile": (
        "flows/test_incremental::test_renamed_tensors_and_doc_strings_do_not_recompile",
        "core/build/test_runtime::test_names_and_doc_strings_do_not_recompile",
        "core/build/test_runtime::test_early_cut_off_keeps_the_bytes_with_names_kept_and_weights_packed",
    ),
    "every byte is checked when it is read": (
        "core/cache/test_store::test_damage_to_any_stored_file_is_a_note_and_a_miss_and_the_next_put_heals_it",
        "core/cache/test_store::test_a_record_moved_to_another_key_is_not_believed",
    ),
    "damage is a rebuild, never a wrong byte or an end": (
        "flows/test_incremental::test_damage_to_every_stored_file_is_reported_and_the_bytes_are_right",
        "flows/test_incremental::test_damage_to_what_only_saves_time_costs_time_and_nothing_else",
        "flows/test_other_checkouts::test_a_damaged_or_replaced_result_is_not_restored",
    ),
    "many processes may write one key": (
        "core/cache/test_robustness::test_eight_writers_of_one_key_leave_one_whole_entry",
    ),
    "200 kills lose and leak nothing": (
        "core/cache/test_robustness::test_200_kills_during_writes_lose_nothing_damage_nothing_and_leave_no_orphan",
        "core/cache/test_upkeep::test_a_leftover_of_a_killed_writer_is_swept_and_one_in_the_making_is_not",
    ),
    "a power cut loses nothing stored": (
        "core/cache/test_robustness::test_after_a_power_cut_what_was_stored_is_there_whole",
    ),
    "one compilation per key": (
        "flows/test_incremental::test_eight_processes_that_want_one_key_compile_it_once",
        "flows/test_incremental::test_the_work_goes_on_when_the_one_who_compiles_is_killed",
        "core/build/test_runtime::test_threads_that_want_one_key_compile_it_once",
        "core/cache/test_robustness::test_a_lock_is_free_when_its_holder_is_killed",
    ),
    "an input that changes during the build is not cached": (
        "core/build/test_runtime::test_an_input_that_changes_during_the_build_is_not_cached",
        "flows/test_incremental::test_a_model_that_changes_while_it_is_compiled_leaves_no_note",
    ),
    "failures are not cached": (
        "core/build/test_runtime::test_refusals_are_not_cached",
        "flows/test_incremental::test_a_refusal_is_not_remembered",
    ),
    "warnings are said again on a hit": ("flows/test_incremental::test_warnings_of_a_plugin_are_said_again_on_a_hit",),
    "the size is limited, the least recently used goes, what is in use stays": (
        "core/cache/test_upkeep::test_the_least_recently_used_go_until_the_low_water_mark",
        "core/cache/test_upkeep::test_what_another_process_works_on_is_spared",
        "core/cache/test_upkeep::test_a_large_entry_does_not_empty_the_cache",
    ),
    "a full disk does not end a build": (
        "flows/test_incremental::test_a_full_disk_under_the_cache_is_a_note_and_the_plan_is_written",
        "core/cache/test_robustness::test_a_full_disk_is_said_and_leaves_no_piece_behind_and_can_be_freed",
    ),
    "a read-only cache gives hits": (
        "flows/test_incremental::test_a_read_only_cache_gives_hits_and_is_not_touched",
        "core/cache/test_robustness::test_a_read_only_file_system_still_gives_hits",
    ),
    "rebuild, do without, clear, forget by age": (
        "flows/test_incremental::test_recache_builds_again_and_no_cache_leaves_nothing",
        "flows/test_incremental::test_statistics_count_and_clear_empties",
        "core/build/test_runtime::test_invalidate_forgets_by_key_target_age_or_everything",
    ),
    "hits, misses, bytes and time saved are counted": (
        "flows/test_incremental::test_statistics_count_and_clear_empties",
        "core/cache/test_upkeep::test_statistics_count_hits_misses_and_what_was_saved",
    ),
    "a rebuild names the input, old and new": (
        "flows/test_incremental::test_explain_names_the_one_input_that_changed_with_old_and_new_value",
        "flows/test_build::test_only_what_changed_is_built_and_said_why",
        "flows/test_other_checkouts::test_what_another_checkout_was_made_from_can_be_explained",
    ),
    "a team shares through plain HTTP": (
        "core/cache/test_remote::test_what_one_machine_stored_another_one_gets_through_nginx",
        "core/cache/test_remote::test_action_results_are_the_protobuf_messages_of_the_protocol",
        "flows/test_build::test_a_fresh_user_in_another_folder_gets_everything_through_nginx",
    ),
    "a remote that is down, slow or lying costs two seconds at most": (
        "core/cache/test_remote::test_a_server_that_lies_or_stalls_is_a_miss_within_two_seconds_and_then_left_alone",
        "flows/test_build::test_a_remote_that_is_down_or_mute_costs_two_seconds_at_most_and_the_plan_is_right",
    ),
    "outputs are checked to be reproducible": (
        "flows/test_verified_builds::test_verify_compiles_again_and_says_that_the_file_equals_the_cached_one",
        "flows/test_verified_builds::test_verify_refuses_a_plan_that_cannot_be_made_again_and_overwrites_nothing",
        "flows/test_verified_builds::test_verify_finds_a_scheduler_that_gives_another_plan_each_time",
        "flows/test_verified_builds::test_build_verifies_every_plan_and_fails_where_one_differs",
    ),
    "nothing in the cache is run, no path in it followed": (
        "core/cache/test_index::test_a_planted_pickle_is_refused_and_nothing_runs",
        "core/cache/test_index::test_a_planted_path_is_neither_read_nor_removed",
        "core/cache/test_store::test_a_planted_file_name_is_refused",
        "core/cache/test_store::test_a_link_in_the_place_of_a_file_is_not_followed",
        "core/cache/test_store::test_everything_is_for_its_owner_alone",
    ),
    "nothing changed is decided before anything heavy is imported": (
        "flows/test_incremental::test_nothing_changed_is_decided_before_anything_heavy_is_imported",
        "flows/test_other_checkouts::test_another_checkout_is_answered_before_anything_heavy_is_imported",
    ),
}


@pytest.mark.parametrize("promise", PROMISES)
def test_each_promise_has_tests_that_exist(promise: str) -> None:
    for name in PROMISES[promise]:
        file, _, test = name.partition("::")
        assert test in _tests(ROOT / "tests" / f"{file}.py"), f"{name} is gone: name what shows this promise now"


@cache
def _tests(path: Path) -> frozenset[str]:
    """Return the names of the tests in a file: functions at its top that pytest collects, with something asserted."""
    functions = (node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef))
    return frozenset(node.name for node in functions if node.name.startswith("test_") and _claims(node))


def _claims(function: ast.FunctionDef) -> bool:
    """Say whether a test can fail by more than an exception: it asserts, or expects to be refused or warned."""
    waits = ("raises", "warns")
    return any(
        isinstance(node, ast.Assert) or (isinstance(node, ast.Attribute) and node.attr in waits)
        for node in ast.walk(function)
    )
