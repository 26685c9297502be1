"""A server that clips the update of each client and adds noise once a round."""


def server_fn(context):
    from flwr.server import ServerAppComponents, ServerConfig
    from flwr.server.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg

    run = context.run_config
    strategy = DifferentialPrivacyServerSideFixedClipping(
        FedAvg(min_fit_clients=run["num-sampled-clients"]),
        noise_multiplier=run["noise-multiplier"],
        clipping_norm=run["clipping-norm"],
        num_sampled_clients=run["num-sampled-clients"],
    )
    return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=run["num-server-rounds"]))
