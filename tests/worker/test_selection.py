"""What the flags --queue and --except-queues mean, and what is said of those that mean nothing."""

import pytest

from django_stampeded.worker.selection import select


def test_nothing_given_means_every_queue():
    found = select()
    assert found.queues is None
    assert found.includes("anything")
    assert found.label == ("*",)


def test_names_come_with_commas_and_from_repeated_flags_in_their_order():
    assert select(["b, a", "c"]).queues == ("b", "a", "c")


def test_a_name_given_twice_counts_once():
    assert select(["a,a", "a"]).queues == ("a",)


def test_a_number_after_a_colon_bounds_the_queue():
    found = select(["mail:5,default:10,other"])
    assert found.queues == ("mail", "default", "other")
    assert found.bounds == {"mail": 5, "default": 10}


def test_a_colon_without_a_number_belongs_to_the_name():
    assert select(["app:mail"]).queues == ("app:mail",)
    assert select(["app:mail:3"]).bounds == {"app:mail": 3}


def test_a_star_is_every_queue_and_bounded_names_may_stand_beside_it():
    found = select(["*,mail:2"])
    assert found.queues is None
    assert found.bounds == {"mail": 2}


def test_excluded_queues_are_left_alone():
    found = select([], ["slow,dlq"])
    assert not found.includes("slow")
    assert found.among(["a", "slow", "b", "dlq"]) == ["a", "b"]
    assert select(["a,b"], ["b"]).queues == ("a",)


def test_a_selection_reads_as_it_was_written():
    assert str(select(["mail:5,default"])) == "mail:5, default"
    assert str(select([], ["dlq"])) == "* except dlq"


@pytest.mark.parametrize(
    ("queues", "excluded", "said"),
    [
        (["a,,b"], [], "empty name"),
        ([""], [], "empty name"),
        (["mail:0"], [], "bound of 1 or more"),
        (["mail:-3"], [], "bound of 1 or more"),
        (["*:5"], [], "takes no bound"),
        (["*,mail"], [], "already includes 'mail'"),
        (["a"], ["a"], "leaves none"),
        (["x" * 256], [], "more than 255"),
        ([], [" , "], "--except-queues has an empty name"),
    ],
)
def test_what_means_nothing_is_refused_in_one_sentence(queues, excluded, said):
    with pytest.raises(ValueError, match="--") as refusal:
        select(queues, excluded)
    assert said in str(refusal.value)
    assert str(refusal.value).count("\n") == 0
