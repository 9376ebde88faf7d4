"""What a rank is there for: to train, or to try the primitives that training is made of."""

from workers.rank.process import Rank


def work(me: Rank) -> None:
    if me.trial.primitives is None:
        from workers.aggregate import strategy_of
        from workers.train import train

        train(me, strategy_of(me.trial))
    else:
        from workers.primitives.rounds import measure, show

        show(me) if me.trial.primitives == "see" else measure(me)
