"""Stop a Lightning run at its privacy budget: Trainer(callbacks=[PrivacyBudget("dpcalc.yaml")])."""

import lightning.pytorch as pl

from dpcalc import Accountant


class PrivacyBudget(pl.Callback):
    """Compares trainer and config, counts noisy updates, logs epsilon, stops before one that exceeds the budget."""

    def __init__(self, config):
        self.accountant = Accountant(config)

    def on_train_start(self, trainer, pl_module):
        size = trainer.train_dataloader.batch_size * trainer.accumulate_grad_batches * trainer.world_size
        self.accountant.require(steps=trainer.estimated_stepping_batches, batch_size=size)

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        # global_step counts optimizer steps, so that accumulated batches are one.
        self.accountant.step(count=max(0, trainer.global_step - self.accountant.steps))
        pl_module.log("epsilon", self.accountant.epsilon)
        trainer.should_stop = trainer.should_stop or self.accountant.should_stop

    def state_dict(self):
        return self.accountant.state_dict()

    def load_state_dict(self, state_dict):
        self.accountant.load_state_dict(state_dict)
